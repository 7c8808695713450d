//! The alarm: one word that says when the driver will look again for what is due.
//!
//! Rule: whoever looks calls [`Alarm::disarm`] first, then looks, then calls [`Alarm::arm`] with what was found;
//! whoever changes what is due calls [`Alarm::arm`] under the lock under which it was changed. Then either the look
//! finds the change, or the change finds the alarm disarmed or set for later, and `arm` says that the driver must
//! look again.

use crate::protocol::{Time, mutated};
use crate::sync::atomic::{AtomicU64, Ordering};

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

#[cfg(all(test, distlock_loom))]
mod loom_tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::Alarm;
    use crate::protocol::Time;
    use crate::protocol::mutant::{self, Mutant};

    /// What is due, in two parts of the state, each behind its lock.
    type Parts = [Mutex<Option<Time>>; 2];

    fn change(alarm: &Alarm, part: &Mutex<Option<Time>>, due: Time) -> bool {
        let mut part = part.lock().unwrap();
        *part = part.into_iter().chain([due]).min();
        alarm.arm(*part)
    }

    fn look(alarm: &Alarm, parts: &Parts) -> Option<Time> {
        alarm.disarm();
        let due = parts.iter().filter_map(|part| *part.lock().unwrap()).min();
        alarm.arm(due);
        due
    }

    /// The driver looks, after it came for something that was due at 10, while two threads change what is due.
    fn nothing_due_is_slept_through(fault: Option<Mutant>) {
        mutant::switch(fault);
        loom::model(|| {
            let alarm = Alarm::new();
            alarm.arm(Some(Time(10)));
            let shared = Arc::new((alarm, [Mutex::new(None), Mutex::new(Some(Time(40)))]));
            let changes: Vec<_> = [Time(20), Time(30)]
                .into_iter()
                .enumerate()
                .map(|(index, due)| {
                    let shared = shared.clone();
                    thread::spawn(move || change(&shared.0, &shared.1[index], due))
                })
                .collect();
            let slept_until = look(&shared.0, &shared.1);
            let must_look_again = changes.into_iter().map(|change| change.join().unwrap()).any(|rearm| rearm);
            assert!(
                must_look_again || slept_until == Some(Time(20)),
                "something is due at 20, and the driver sleeps until {slept_until:?}"
            );
        });
    }

    #[test]
    fn loom_nothing_that_is_due_is_slept_through() {
        nothing_due_is_slept_through(None);
    }

    #[test]
    #[should_panic(expected = "something is due at 20")]
    fn loom_an_alarm_that_stays_armed_during_the_look_is_noticed() {
        nothing_due_is_slept_through(Some(Mutant::ArmedWhileChecking));
    }
}
