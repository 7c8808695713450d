//! Clients ask each other what they hold and wait for. Nothing is kept for that while nobody asks.

mod answering;
mod asking;
mod limits;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::sync::OnceCell;
use tokio::sync::oneshot;

use super::Core;
use crate::protocol::inquiry::{Answer, Message, Rest};
use crate::protocol::{Account, Met, Who};
use limits::Limits;

/// What one manager asks and is asked.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Who awaits which answer.
    awaited: Mutex<HashMap<u64, Awaited>>,
    limits: Mutex<Limits>,
    who: OnceCell<Who>,
    busy: AtomicU64,
    lost: AtomicU64,
}

#[derive(Debug)]
struct Awaited {
    /// The client that was asked.
    from: String,
    answer: oneshot::Sender<Answer>,
}

/// A part of what a client holds and waits for, in the order of the keys.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) who: Who,
    pub(crate) accounts: Vec<Account>,
    pub(crate) rest: Rest,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Talk {
    /// A request has ended as busy.
    pub(super) fn count_busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// A hold was lost.
    pub(super) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Core {
    /// Another client has sent this.
    pub(super) fn heard(self: &std::sync::Arc<Self>, text: &str) {
        match Message::read(text) {
            Some(Message::Question(question)) => self.answer(question),
            Some(Message::Answer(answer)) => self.talk.answered(answer),
            // Of a version that says more than this one understands.
            None => {}
        }
    }

    /// This process.
    pub(crate) fn who(&self) -> Who {
        let who = self.talk.who.get_or_init(Who::this_process).clone();
        let met = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Who { met: Some(Met { busy: met(&self.talk.busy), lost: met(&self.talk.lost) }), ..who }
    }
}
