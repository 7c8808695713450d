//! What others may learn of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::OnceCell;

use super::Core;
use crate::backend::HoldNote;
use crate::protocol::{Account, Met, Pattern, Who, op};
use distlock_store::clock;

/// Who this process is, and what it has met since the manager began.
#[derive(Debug, Default)]
pub(super) struct Myself {
    who: OnceCell<Who>,
    busy: AtomicU64,
    lost: AtomicU64,
}

impl Myself {
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
    /// This process.
    pub(crate) fn who(&self) -> Who {
        let who = self.myself.who.get_or_init(Who::this_process).clone();
        let met = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Who { met: Some(Met { busy: met(&self.myself.busy), lost: met(&self.myself.lost) }), ..who }
    }

    /// What this client holds and waits for under one key.
    pub(crate) fn account(&self, key: &Arc<str>) -> Option<Account> {
        let now = clock::now();
        self.engine.look(key, |machine| machine.account(now, key))
    }

    /// What others may learn of a lease that is being renewed.
    pub(super) fn hold_note(&self, key: &Arc<str>, renew: &op::Renew) -> Option<HoldNote> {
        let hold = self.account(key)?.holds.into_iter().find(|hold| hold.token == renew.token)?;
        Some(HoldNote { key: key.clone(), hold, ttl: renew.ttl })
    }

    /// The first `most` keys behind `after` that this client holds or waits for, in order.
    pub(crate) fn keys_behind(&self, after: Option<&str>, pattern: &Pattern, most: usize) -> Vec<Arc<str>> {
        self.engine.keys_behind(after, pattern, most)
    }
}
