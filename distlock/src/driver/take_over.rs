//! The commands that callers poll, and the timer after which the I/O thread takes them over, because a caller may not
//! be polled, and others may wait for the reply.

use std::sync::Arc;
use std::time::Duration;

use distlock_store::kit::sync::Locked;
use tokio::sync::Notify;

/// How often commands are checked. A command is taken over at the second check. For a store that takes longer, one more
/// wake-up does not matter. Others that wait for the command's turn wait for a blocked caller for at most two
/// intervals.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A command that a caller polls.
pub(super) trait TakenOver: Send + Sync {
    /// From now on, the I/O thread awaits its reply.
    fn take_over(self: Arc<Self>);

    /// The I/O thread has ended.
    fn end(&self);
}

/// The commands that callers poll, and their timer.
pub(super) struct TakeOverTimer {
    register: Locked<Register>,
    begun: Notify,
}

/// Names a command in the register.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryId {
    index: usize,
    number: u64,
}

#[derive(Default)]
struct Register {
    slots: Vec<Option<Kept>>,
    free: Vec<usize>,
    next: u64,
    /// Whether a task checks regularly.
    is_watched: bool,
    /// Whether a command was begun since the last check.
    is_busy: bool,
    has_ended: bool,
}

struct Kept {
    number: u64,
    was_seen: bool,
    command: Arc<dyn TakenOver>,
}

impl Register {
    fn take(&mut self, index: usize) -> Option<Kept> {
        let kept = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        Some(kept)
    }

    /// The commands that the last check also found. `None`: no further check is needed for now.
    fn look(&mut self) -> Option<Vec<Arc<dyn TakenOver>>> {
        if !std::mem::take(&mut self.is_busy) && self.free.len() == self.slots.len() {
            (self.is_watched, self.slots, self.free) = (false, Vec::new(), Vec::new());
            return None;
        }
        let mut old = Vec::new();
        for index in 0..self.slots.len() {
            let Some(Some(kept)) = self.slots.get_mut(index) else { continue };
            if std::mem::replace(&mut kept.was_seen, true) {
                old.extend(self.take(index).map(|kept| kept.command));
            }
        }
        Some(old)
    }
}

impl TakeOverTimer {
    pub(super) fn new() -> Self {
        TakeOverTimer { register: Locked::default(), begun: Notify::new() }
    }

    /// `None`: the I/O thread has ended.
    pub(super) fn keep(&self, command: Arc<dyn TakenOver>) -> Option<EntryId> {
        let mut register = self.register.lock();
        if register.has_ended {
            return None;
        }
        let number = register.next;
        register.next += 1;
        register.is_busy = true;
        let kept = Some(Kept { number, was_seen: false, command });
        let index = match register.free.pop() {
            Some(index) => index,
            None => {
                register.slots.push(None);
                register.slots.len() - 1
            }
        };
        if let Some(slot) = register.slots.get_mut(index) {
            *slot = kept;
        }
        let was_watched = std::mem::replace(&mut register.is_watched, true);
        drop(register);
        if !was_watched {
            self.begun.notify_one();
        }
        Some(EntryId { index, number })
    }

    /// The command needs no further check. A second call has no effect.
    pub(super) fn forget(&self, entry: EntryId) {
        let mut register = self.register.lock();
        let is_there = |kept: &Kept| kept.number == entry.number;
        let kept = register.slots.get(entry.index).and_then(Option::as_ref).is_some_and(is_there);
        let kept = if kept { register.take(entry.index) } else { None };
        drop(register);
        // It may be the last reference to the command.
        drop(kept);
    }

    /// Checks the commands until the runtime ends.
    pub(super) fn look_after<F, P>(self: Arc<Self>, pause: F) -> impl Future<Output = ()> + Send + use<F, P>
    where
        F: Fn(Duration) -> P + Send + Sync,
        P: Future<Output = ()> + Send,
    {
        // Created before the first poll, which never comes if the runtime ends immediately.
        let end = EndOnDrop(self);
        async move { end.0.look_again_and_again(pause).await }
    }

    async fn look_again_and_again<P: Future<Output = ()>>(&self, pause: impl Fn(Duration) -> P) {
        loop {
            self.begun.notified().await;
            loop {
                pause(CHECK_INTERVAL).await;
                let old = self.register.lock().look();
                let Some(old) = old else { break };
                old.into_iter().for_each(TakenOver::take_over);
            }
        }
    }
}

struct EndOnDrop(Arc<TakeOverTimer>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let mut register = self.0.register.lock();
        register.has_ended = true;
        let (slots, free) = (std::mem::take(&mut register.slots), std::mem::take(&mut register.free));
        drop(register);
        drop(free);
        for kept in slots.into_iter().flatten() {
            kept.command.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted {
        called: AtomicUsize,
        ended: AtomicUsize,
    }

    impl TakenOver for Counted {
        fn take_over(self: Arc<Self>) {
            self.called.fetch_add(1, Ordering::Relaxed);
        }

        fn end(&self) {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn look(timer: &TakeOverTimer) -> Option<usize> {
        timer.register.lock().look().map(|old| old.len())
    }

    #[test]
    fn a_command_is_taken_over_at_the_second_look_and_once() {
        let (timer, command) = (TakeOverTimer::new(), Arc::new(Counted::default()));
        let entry = timer.keep(command.clone()).unwrap();
        assert_eq!([look(&timer), look(&timer), look(&timer)], [Some(0), Some(1), None]);
        timer.forget(entry);
        assert_eq!(Arc::strong_count(&command), 1);
    }

    #[test]
    fn what_is_over_is_forgotten_and_its_place_used_again() {
        let (timer, command) = (TakeOverTimer::new(), Arc::new(Counted::default()));
        let first = timer.keep(command.clone()).unwrap();
        timer.forget(first);
        let second = timer.keep(command.clone()).unwrap();
        assert_eq!(first.index, second.index);
        // Another command has this place by now.
        timer.forget(first);
        assert_eq!(Arc::strong_count(&command), 2);
        assert_eq!([look(&timer), look(&timer)], [Some(0), Some(1)]);
        timer.forget(second);
    }

    #[test]
    fn nobody_looks_while_nothing_is_under_way() {
        let (timer, command) = (TakeOverTimer::new(), Arc::new(Counted::default()));
        for _ in 0..2 {
            timer.forget(timer.keep(command.clone()).unwrap());
            assert_eq!([look(&timer), look(&timer)], [Some(0), None]);
        }
    }

    #[test]
    fn whatever_is_under_way_at_the_end_is_told_and_nothing_is_kept_afterwards() {
        let (timer, command) = (Arc::new(TakeOverTimer::new()), Arc::new(Counted::default()));
        timer.keep(command.clone()).unwrap();
        drop(timer.clone().look_after(tokio::time::sleep));
        assert_eq!(command.ended.load(Ordering::Relaxed), 1);
        assert!(timer.keep(command).is_none());
    }
}
