//! Detects that no work is pending. A shutdown and the end of the I/O thread wait for this.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::Core;
use crate::contained::{contained, poll_contained};

impl Core {
    /// Wakes every task that waits for the end of a hold or a command.
    pub(super) fn notify_idle_waiters(&self) {
        self.idle_changed.notify();
    }

    /// Does the same after a counter was decremented. Every section calls this twice, and there is nearly always no
    /// waiter. A waiter is counted before it reads the counters, and the counters are changed before this reads the
    /// number of waiters. So one of the two sees the other.
    pub(super) fn may_be_idle(&self) {
        if self.idle_waiters.load(Ordering::SeqCst) > 0 {
            self.notify_idle_waiters();
        }
    }

    /// The number of lease handles in use.
    pub(crate) fn lease_handles(&self) -> usize {
        self.lease_handles.load(Ordering::SeqCst)
    }

    /// The same without those whose hold has ended, and whose release is awaited.
    pub(crate) fn lease_handles_not_released(&self) -> usize {
        // A release that ends in between is still among the handles, so the number is never too low: the store must
        // not be closed while a body uses its lock.
        let handles = self.lease_handles();
        handles.saturating_sub(self.releasing.load(Ordering::SeqCst))
    }

    /// Waits for at most `d` until `idle` returns `true`. Checks it whenever a hold or a command has ended.
    pub(crate) async fn idle_within(&self, d: Duration, idle: impl Fn(&Core) -> bool) -> bool {
        let until_idle = async {
            let _waiting = IdleWaiter::new(self);
            loop {
                let mut idle_changed = self.idle_changed.listen();
                if idle(self) {
                    return;
                }
                poll_fn(|cx| idle_changed.poll(cx)).await;
            }
        };
        tokio::select! {
            biased;
            () = until_idle => true,
            () = self.sleep(d) => idle(self),
        }
    }

    /// Whether no command is in flight and no release is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.handed_over.load(Ordering::SeqCst) == 0 && self.engine.unconfirmed_releases() == 0
    }

    /// Notifies the backend, once, that the manager ends, and awaits it for at most `d`. Call this when no lock is
    /// held, and the replies to releases have come or were awaited for long enough.
    pub(crate) async fn close_backend(self: &Arc<Self>, d: Duration) {
        if self.backend_closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (done, closed) = oneshot::channel::<()>();
        let core = self.clone();
        self.on_io_thread(async move {
            if let Ok(mut closing) = contained(|| core.backend.clone().close()) {
                // A panic of the store ends it, too.
                drop(poll_fn(|cx| poll_contained(closing.as_mut(), cx)).await);
            }
            drop(done);
        });
        tokio::select! {
            biased;
            // It ends when the sender is dropped. Nothing is ever sent.
            _ = closed => {}
            () = self.sleep(d) => {}
        }
    }

    /// The number of releases that the server has not confirmed: those without a reply, and those that failed.
    pub(crate) fn unconfirmed(&self) -> usize {
        // Read first. A release whose reply is a failure is pending before it no longer counts here.
        let unanswered = self.unanswered_releases.load(Ordering::SeqCst);
        unanswered + self.engine.unconfirmed_releases()
    }

    /// Blocks this thread until the commands that no caller awaits have replies, but not beyond `until`.
    pub(super) fn answered_by(&self, until: Instant) {
        let _waiting = IdleWaiter::new(self);
        loop {
            let idle_changed = self.idle_changed.listen();
            if self.handed_over.load(Ordering::SeqCst) == 0 || !idle_changed.wait_deadline(until) {
                return;
            }
        }
    }
}

/// Counts a task that waits until the manager is idle.
struct IdleWaiter<'a>(&'a Core);

impl<'a> IdleWaiter<'a> {
    fn new(core: &'a Core) -> Self {
        core.idle_waiters.fetch_add(1, Ordering::SeqCst);
        IdleWaiter(core)
    }
}

impl Drop for IdleWaiter<'_> {
    fn drop(&mut self) {
        self.0.idle_waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a command that no caller awaits.
pub(super) struct HandedOver(Arc<Core>);

impl HandedOver {
    pub(super) fn new(core: Arc<Core>) -> Self {
        core.handed_over.fetch_add(1, Ordering::Relaxed);
        HandedOver(core)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        self.0.handed_over.fetch_sub(1, Ordering::SeqCst);
        self.0.may_be_idle();
    }
}

/// Counts a release that was sent and has no reply.
pub(super) struct Unanswered(Arc<AtomicUsize>);

impl Unanswered {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Unanswered(count.clone())
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
