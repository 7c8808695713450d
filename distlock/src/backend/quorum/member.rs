//! What is known about one of the servers: whether it is there, whether it counts, and what it still has to be
//! told.

use std::sync::Arc;
use std::time::Duration;

use super::super::{OpError, Pushes, Token};
use crate::clock::Time;

/// Between two attempts to give back what is left of a token on a server that is there.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// Something of a token that nobody wants any more may be left on a server.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    pub(super) key: Arc<str>,
    pub(super) token: Token,
    /// When to give it back; `Time::MAX`: as soon as the server is there.
    pub(super) at: Time,
    /// When nothing of it can be left any more.
    pub(super) until: Time,
}

/// How a server came to be what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Changes with every start.
    pub(crate) run_id: String,
    /// How long ago it was started, at least.
    pub(crate) age: Duration,
    /// The run in which somebody last found that it counts.
    pub(crate) vouched: Option<String>,
}

/// Whether a server's word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Never met.
    Unknown,
    Counts,
    /// Started at this time, perhaps without what it knew before.
    Young(Time),
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) up: bool,
    pub(super) pushes: Pushes,
    pub(super) standing: Standing,
    pub(super) run_id: Option<String>,
    /// Why it can never be one of these servers, as it is configured now.
    pub(super) misfit: Option<OpError>,
    /// The latest reason for not being up.
    pub(super) cause: Option<OpError>,
    pub(super) owed: Vec<Owed>,
}

impl Member {
    pub(super) fn new() -> Member {
        Member {
            up: false,
            pushes: Pushes::Off,
            standing: Standing::Unknown,
            run_id: None,
            misfit: None,
            cause: None,
            owed: Vec::new(),
        }
    }

    pub(super) fn counts(&self) -> bool {
        self.standing == Standing::Counts || mutated!(YoungServersCount)
    }

    /// Remembers that `owed` has to be given back: now and then if the server is there, else once it is.
    pub(super) fn owe(&mut self, now: Time, owed: Owed) {
        if owed.until > now {
            let at = if self.up { now.after(RETRY) } else { Time::MAX };
            self.owed.push(Owed { at, ..owed });
        }
    }

    pub(super) fn take_due(&mut self, now: Time, came_up: bool) -> Vec<Owed> {
        let mut due = Vec::new();
        self.owed.retain(|owed| {
            if owed.at <= now || (came_up && owed.at == Time::MAX) {
                due.push(owed.clone());
                return false;
            }
            owed.until > now
        });
        due
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.owed.iter().map(|owed| owed.at.min(owed.until)).min()
    }
}
