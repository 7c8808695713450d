//! The store's health, as far as it is known.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::{LinkEvent, Notifications, StoreError};
use distlock_store::clock;
use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;

/// No command got a reply yet.
const NEVER: u64 = 0;

/// The link and every reply update it.
#[derive(Debug)]
pub(crate) struct Vitals {
    link: Locked<LinkState>,
    /// When the store last executed a command.
    answered: AtomicU64,
}

#[derive(Clone, Debug)]
struct LinkState {
    up: bool,
    since: Time,
    pushes: Notifications,
    cause: Option<StoreError>,
}

/// A copy at one moment.
#[derive(Clone, Debug)]
pub(crate) struct VitalsSnapshot {
    pub(crate) up: bool,
    pub(crate) lasted: Duration,
    pub(crate) pushes: Notifications,
    pub(crate) cause: Option<StoreError>,
    pub(crate) answered: Option<Duration>,
}

impl Vitals {
    pub(super) fn new() -> Self {
        let link = LinkState { up: false, since: clock::now(), pushes: Notifications::Off, cause: None };
        Vitals { link: Locked::new(link), answered: AtomicU64::new(NEVER) }
    }

    pub(super) fn link(&self, event: &LinkEvent) {
        let mut link = self.link.lock();
        let was_up = link.up;
        match event {
            LinkEvent::Up { pushes, .. } => {
                (link.up, link.pushes, link.cause) = (true, *pushes, None);
            }
            LinkEvent::Down { cause } => {
                (link.up, link.pushes, link.cause) = (false, Notifications::Off, Some(cause.clone()));
            }
            LinkEvent::Notifications(pushes) => link.pushes = *pushes,
        }
        if link.up != was_up {
            link.since = clock::now();
        }
    }

    pub(super) fn answered(&self, now: Time) {
        self.answered.store(now.0, Ordering::Relaxed);
    }

    pub(crate) fn look(&self) -> VitalsSnapshot {
        let link = self.link.lock().clone();
        let now = clock::now();
        let answered = match self.answered.load(Ordering::Relaxed) {
            NEVER => None,
            at => Some(now.duration_since(Time(at))),
        };
        let LinkState { up, since, pushes, cause } = link;
        VitalsSnapshot { up, lasted: now.duration_since(since), pushes, cause, answered }
    }
}
