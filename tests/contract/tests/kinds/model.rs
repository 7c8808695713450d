//! A model of the holders and the waiters of a lock, from the requests so far.

use distlock::LockKind;
use distlock::store::{AcquireReply, Busy, KEPT};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) owner: String,
    pub(crate) kind: LockKind,
    pub(crate) is_kept: bool,
}

impl Place {
    fn name(&self) -> &str {
        if self.is_kept { KEPT } else { &self.owner }
    }
}

/// The places of one lock, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Model(pub(crate) Vec<Place>);

impl Model {
    /// Whether an owner of this kind holds the lock after `older` places.
    fn lets_in(&self, kind: LockKind, older: usize) -> bool {
        let older = &self.0[..older];
        match kind {
            LockKind::Exclusive => older.is_empty(),
            LockKind::Shared => older.iter().all(|place| place.kind == LockKind::Shared),
            LockKind::Limited { max_holders } => older.len() < usize::try_from(max_holders).unwrap(),
        }
    }

    pub(crate) fn position(&self, owner: &str) -> Option<usize> {
        self.0.iter().position(|place| place.owner == owner && !place.is_kept)
    }

    pub(crate) fn holds(&self, owner: &str) -> bool {
        self.position(owner).is_some_and(|at| self.lets_in(self.0[at].kind, at))
    }

    /// The holders, and the waiters.
    pub(crate) fn parties(&self) -> (Vec<String>, Vec<String>) {
        let (mut holders, mut waiters) = (Vec::new(), Vec::new());
        for (at, place) in self.0.iter().enumerate() {
            let holds = self.lets_in(place.kind, at);
            if holds { &mut holders } else { &mut waiters }.push(place.name().to_owned());
        }
        (holders, waiters)
    }

    fn busy(&self, at: usize) -> AcquireReply {
        let busy = Busy::by(self.0[0].name());
        AcquireReply::Busy(if at > self.parties().0.len() { busy.behind_others() } else { busy })
    }

    /// The expected reply, without fencing tokens.
    pub(crate) fn acquire(&mut self, owner: &str, kind: LockKind, queues: bool) -> AcquireReply {
        let excludes = |other: LockKind| {
            let is_limited = |kind| matches!(kind, LockKind::Limited { .. });
            other != kind && (is_limited(kind) || is_limited(other))
        };
        if let Some(at) = self.position(owner) {
            return if self.holds(owner) { AcquireReply::AlreadyHeld { fence: None } } else { self.busy(at) };
        }
        if let Some(other) = self.0.iter().find(|place| excludes(place.kind)) {
            return AcquireReply::WrongKind { found: other.kind };
        }
        let at = self.0.len();
        let has_room = self.lets_in(kind, at);
        if has_room || queues {
            self.0.push(Place { owner: owner.to_owned(), kind, is_kept: false });
        }
        if has_room { AcquireReply::Acquired { fence: None } } else { self.busy(at) }
    }
}
