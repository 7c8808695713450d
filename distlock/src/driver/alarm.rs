//! The alarm: one word that says when the driver will look again for what is due.
//!
//! Rule: whoever looks calls [`Alarm::disarm`] first, then looks, then calls [`Alarm::arm`] with what was found;
//! whoever changes what is due calls [`Alarm::arm`] under the lock under which it was changed. Then either the look
//! finds the change, or the change finds the alarm disarmed or set for later, and `arm` says that the driver must
//! look again.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::protocol::{Time, mutated};

/// The value of a disarmed alarm: every event that is due is earlier.
const DISARMED: u64 = u64::MAX;

/// When the driver will look again.
#[derive(Debug)]
pub(crate) struct Alarm(AtomicU64);

impl Alarm {
    /// Disarmed.
    pub(crate) fn new() -> Alarm {
        Alarm(AtomicU64::new(DISARMED))
    }

    /// To be called before a look: from now on every event that is due says so.
    pub(crate) fn disarm(&self) {
        if looks_disarm() {
            self.0.store(DISARMED, Ordering::SeqCst);
        }
    }

    /// The earliest event is due at `due`. True if the driver would have come later: it must look again.
    pub(crate) fn arm(&self, due: Option<Time>) -> bool {
        due.is_some_and(|due| {
            due.0 < self.0.load(Ordering::SeqCst) && due.0 < self.0.fetch_min(due.0, Ordering::SeqCst)
        })
    }
}

/// What becomes due during a look is not slept through.
fn looks_disarm() -> bool {
    !mutated!(ArmedWhileChecking)
}
