//! What the backend reports.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Core, LinkSeen};
use crate::backend::Events;
use crate::clock;
use crate::contained::contained;
use crate::protocol::{LinkEvent, OpError, Push, Time};
use crate::trace;

/// A time without a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outage {
    since: Time,
    /// There was a link before.
    after_a_link: bool,
}

/// What a link event means for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkChange {
    /// The link was lost, or the first attempt to make it has failed.
    Lost,
    /// Another attempt has failed.
    StillDown,
    /// The first link, at the first attempt; or the first attempt after a link that nobody missed.
    Up,
    /// The first link, after attempts that failed for so long.
    UpAtLast(Duration),
    /// A link again, after so long without one.
    UpAgain(Duration),
    /// Something else.
    None,
}

impl Core {
    fn link_change(&self, event: &LinkEvent) -> LinkChange {
        let now = clock::now();
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            LinkEvent::Down { .. } if outage.is_some() => LinkChange::StillDown,
            LinkEvent::Down { .. } => {
                let after_a_link = matches!(*self.link.borrow(), LinkSeen::Up);
                *outage = Some(Outage { since: now, after_a_link });
                LinkChange::Lost
            }
            LinkEvent::Up { .. } => match outage.take() {
                None => LinkChange::Up,
                Some(Outage { since, after_a_link: false }) => {
                    LinkChange::UpAtLast(now.duration_since(since))
                }
                Some(Outage { since, after_a_link: true }) => LinkChange::UpAgain(now.duration_since(since)),
            },
            LinkEvent::Pushes(_) => LinkChange::None,
        }
    }

    /// The backend's work has panicked, and its link is gone. It is begun anew, and does not know what its
    /// former links have sent.
    pub(super) fn backend_panicked(&self, cause: OpError) {
        self.begun_anew.store(true, Ordering::Release);
        self.link(LinkEvent::Down { cause });
    }
}

impl Events for Core {
    fn link(&self, mut event: LinkEvent) {
        if let LinkEvent::Up { former_links_dead, .. } = &mut event
            && self.begun_anew.swap(false, Ordering::AcqRel)
        {
            *former_links_dead = false;
        }
        let link_change = self.link_change(&event);
        drop(contained(|| trace::link(&*self.backend, &event, link_change)));
        let Some(core) = self.io.core() else { return };
        match contained(|| self.engine.link(clock::now(), &event)) {
            Ok(effects) => core.perform_batched(effects),
            Err(_) => self.io.rearm(),
        }
        let seen = match event {
            LinkEvent::Up { .. } => LinkSeen::Up,
            LinkEvent::Down { cause } => LinkSeen::Down(cause),
            LinkEvent::Pushes(_) => return,
        };
        drop(contained(|| self.link.send_replace(seen)));
    }

    fn push(&self, push: Push) {
        let Some(core) = self.io.core() else { return };
        // A push that is lost by a panic is made up for by the waiter's own timer.
        drop(core.event(|engine, now| engine.push(now, push)));
    }
}
