//! What is known about one of the servers: whether it is there, whether it counts, and what it still has to be
//! told.

use std::sync::Arc;
use std::time::Duration;

use super::super::{OpError, Pushes, ServerTime, Token};
use crate::clock::Time;
use crate::engine::server_clock::{ServerClock, Step};

/// Between two attempts to give back what is left of a token on a server that is there.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// Something of a token that nobody wants any more may be left on a server.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    pub(super) key: Arc<str>,
    pub(super) token: Token,
    /// The round that left it.
    pub(super) round: u64,
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
    /// What its wall clock says.
    pub(crate) us: ServerTime,
}

/// Whether a server's word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Never met.
    Unknown,
    Counts,
    /// Started at this time, perhaps without what it knew before.
    Young(Time),
    /// Its clock was set forward at this time, or before.
    Stepped(Time),
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) up: bool,
    pub(super) pushes: Pushes,
    pub(super) standing: Standing,
    pub(super) run_id: Option<String>,
    /// What its answers say about its wall clock.
    pub(super) clock: ServerClock,
    /// Why it can never be one of these servers, as it is configured now.
    pub(super) misfit: Option<OpError>,
    /// The latest reason for not being up.
    pub(super) cause: Option<OpError>,
    pub(super) owed: Vec<Owed>,
    /// Commands without an answer.
    pub(super) unanswered: u32,
    /// When it last answered, or was asked after it had answered everything.
    pub(super) heard: Time,
}

impl Member {
    pub(super) fn new() -> Member {
        Member {
            up: false,
            pushes: Pushes::Off,
            standing: Standing::Unknown,
            run_id: None,
            clock: ServerClock::default(),
            misfit: None,
            cause: None,
            owed: Vec::new(),
            unanswered: 0,
            heard: Time(0),
        }
    }

    /// It was asked something, and has said nothing for so long.
    pub(super) fn is_silent(&self, now: Time, limit: Duration) -> bool {
        self.unanswered > 0 && now.since(self.heard) > limit
    }

    pub(super) fn counts(&self) -> bool {
        self.standing == Standing::Counts || mutated!(YoungServersCount)
    }

    /// Somebody has found that it counts during this run.
    pub(super) fn is_vouched_for(&mut self, origin: &Origin) {
        let same = self.run_id.as_deref() == Some(origin.run_id.as_str());
        let vouched = origin.vouched.as_deref() == Some(origin.run_id.as_str());
        if same && vouched && matches!(self.standing, Standing::Young(_)) {
            self.standing = Standing::Counts;
        }
    }

    /// It said so between these times. A clock that was set forward has ended leases before their time, as if
    /// the server had forgotten them.
    pub(super) fn heard_time(&mut self, us: ServerTime, sent: Time, seen: Time) {
        if let Some(Step::Forward(_)) = self.clock.observe(us, sent, seen)
            && !mutated!(ServerStepIgnored)
        {
            self.standing = Standing::Stepped(seen);
        }
    }

    /// Remembers that `owed` has to be given back: now and then if the server is there, else once it is.
    pub(super) fn owe(&mut self, now: Time, owed: Owed) {
        if owed.until > now {
            let at = if self.up { now.after(RETRY) } else { Time::MAX };
            self.owed.push(Owed { at, ..owed });
        }
    }

    /// What is to be given back now. While the server is not there that is nothing, and later everything.
    pub(super) fn take_due(&mut self, now: Time, came_up: bool) -> Vec<Owed> {
        let (mut due, up) = (Vec::new(), self.up);
        self.owed.retain_mut(|owed| {
            if !up && owed.at <= now {
                owed.at = Time::MAX;
            }
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
