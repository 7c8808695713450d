//! When the timers must be looked at next, told from any thread without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::{Time, mutated};

/// What whoever fires the timers goes by. It disarms the alarm, asks every machine what is due, and arms the alarm
/// with the earliest of these times; every event arms it, too, under the mutex of its machine. So an event that a
/// machine had before it was asked is in its answer, and one that it has later finds the alarm disarmed, or armed
/// with what the others said.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Nobody need be told of anything due at this time, or later.
    armed: AtomicU64,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Alarm { armed: AtomicU64::new(u64::MAX) }
    }

    /// Something is due at this time. True: whoever fires the timers does not know of anything so early, and must be
    /// told to look again.
    pub(crate) fn arm(&self, due: Option<Time>) -> bool {
        due.is_some_and(|due| {
            due.0 < self.armed.load(Ordering::SeqCst) && due.0 < self.armed.fetch_min(due.0, Ordering::SeqCst)
        })
    }

    /// From now on everything that is due is worth being told.
    pub(crate) fn disarm(&self) {
        if is_told_while_looking() {
            self.armed.store(u64::MAX, Ordering::SeqCst);
        }
    }
}

/// What is due while whoever fires the timers looks around is not lost.
fn is_told_while_looking() -> bool {
    !mutated!(ArmedWhileChecking)
}
