//! Reports of the backend.

use std::sync::atomic::Ordering;

use super::{Core, LinkSeen};
use crate::backend::{Events, PushHint};
use crate::contained::contained;
use crate::observe::Event;
use crate::outage::{BeforeOutage, LinkChange};
use crate::protocol::{EarlierCommands, LinkEvent, Push, StoreError, Who};
use distlock_store::clock;

impl Core {
    fn link_change<'a>(&self, event: &'a LinkEvent) -> LinkChange<'a> {
        let before = if matches!(*self.link.borrow(), LinkSeen::Up) {
            BeforeOutage::Link
        } else {
            BeforeOutage::Nothing
        };
        let mut outage = self.outage.lock();
        LinkChange::of(event, clock::now(), &mut outage, before)
    }

    /// The backend's task has panicked, and its link is gone. The task is started again, and does not know which
    /// commands its former links have sent.
    pub(super) fn backend_panicked(&self, cause: StoreError) {
        self.begun_anew.store(true, Ordering::Release);
        self.link(LinkEvent::Down { cause });
    }
}

impl Events for Core {
    fn link(&self, mut event: LinkEvent) {
        if let LinkEvent::Up { earlier, .. } = &mut event
            && self.begun_anew.swap(false, Ordering::AcqRel)
        {
            *earlier = EarlierCommands::MayArrive;
        }
        let change = self.link_change(&event);
        self.vitals.link(&event);
        if !self.observers.want_nothing() {
            let store = self.backend.describe();
            self.observers.tell(&Event::Link { store: &store, change });
        }
        let Some(core) = self.io.core() else { return };
        match contained(|| self.engine.link(clock::now(), &event)) {
            Ok(effects) => core.perform_batched(effects),
            Err(_) => self.io.rearm(),
        }
        let seen = match event {
            LinkEvent::Up { .. } => LinkSeen::Up,
            LinkEvent::Down { cause } => LinkSeen::Down(cause),
            LinkEvent::Notifications(_) => return,
        };
        drop(contained(|| self.link.send_replace(seen)));
    }

    fn push(&self, push: Push) {
        let Some(core) = self.io.core() else { return };
        // If a panic loses a push, the waiter's own timer asks again.
        drop(core.event(|engine, now| engine.push(now, &push)));
    }

    fn notice(&self, notice: PushHint) {
        let Some(core) = self.io.core() else { return };
        drop(core.event(|engine, now| engine.on_key(now, notice.key(), |step| step.on_notice(&notice)).1));
    }

    fn who(&self) -> Option<Who> {
        Some(Core::who(self))
    }

    fn session_lost(&self) {
        let Some(core) = self.io.core() else { return };
        // The session itself has already reported the loss. If a panic loses this event, the timers find the loss.
        drop(core.event(|engine, now| engine.on_every_key(now, |step| step.lose_session())));
    }
}
