//! How a manager ends: by a shutdown, a fork, or a defect.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Core, LinkSeen};
use crate::contained::contained;
use crate::error::LostReason;
use crate::observe::Event;
use crate::process;
use crate::protocol::{Failure, StoreError};

impl Core {
    /// From now on, all acquisitions are refused.
    pub(crate) fn close(self: &Arc<Self>) {
        drop(self.event(|engine, now| engine.close(now)));
        drop(contained(|| self.closed.send_replace(true)));
    }

    /// Becomes `true` when the manager is shut down.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    /// The pause between two attempts. It ends early if the manager is shut down or can no longer work, which the next
    /// attempt then reports.
    pub(crate) async fn rest(&self, pause: Duration) {
        let (mut closing, mut link) = (self.closing(), self.link.subscribe());
        tokio::select! {
            biased;
            _ = closing.wait_for(|closed| *closed) => {}
            // The defect is set before the link is reported as down.
            _ = link.wait_for(|_| self.io.defect().is_some()) => {}
            () = self.sleep(pause) => {}
        }
    }

    pub(crate) fn lose_all(self: &Arc<Self>) {
        drop(self.event(|engine, now| engine.on_every_key(now, |step| step.lose_all(LostReason::Shutdown))));
    }

    /// Every lease of this process for `key` is lost, as if no renewal had been confirmed in time.
    pub(crate) fn lose_key(self: &Arc<Self>, key: &Arc<str>) {
        drop(self.event(|engine, now| engine.on_key(now, key, |step| step.lose_all(LostReason::Expired)).1));
    }

    /// The I/O thread has ended although this manager is in use. No lease is renewed and no waiter is woken from now
    /// on, so all holders, all waiters and all later requests get an error immediately.
    pub(super) fn fail(self: &Arc<Self>, why: &str) {
        let defect = format!("the manager's I/O thread has ended ({why}): make a new manager");
        self.observers.tell(&Event::Failed { defect: &defect });
        let cause = StoreError::new(Failure::Refused, defect.clone());
        self.io.ended(defect);
        drop(contained(|| self.link.send_replace(LinkSeen::Down(cause.clone()))));
        drop(
            self.event(|engine, now| engine.on_every_machine(|machine, out| machine.fail(now, &cause, out))),
        );
        self.notify_idle_waiters();
    }

    /// Whether this process was forked from the one that created the manager. In that case, the manager must not be
    /// used here.
    pub(crate) fn is_forked(&self) -> bool {
        self.made_in.is_another()
    }

    /// The reason why this manager cannot work, if its I/O thread does not run.
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        if self.is_forked() {
            return Some(process::forked());
        }
        self.io.defect().map(|defect| StoreError::new(Failure::Refused, defect))
    }
}
