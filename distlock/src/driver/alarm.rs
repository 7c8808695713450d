//! The alarm: one word with the time of the driver's next check of the timers.
//!
//! Rule: the driver calls [`Alarm::disarm`], then checks the timers, then calls [`Alarm::arm`] with the earliest time
//! that it found. A thread that changes a timer calls [`Alarm::arm`] while it holds the mutex under which it made the
//! change. Then either the check finds the change, or the change finds the alarm disarmed or set for a later time. In
//! the second case, `arm` returns `true`, and the driver must check again.

use crate::protocol::{Time, mutated};
use crate::sync::atomic::{AtomicU64, Ordering};

/// The value of a disarmed alarm, which is later than any time that can be due.
const DISARMED: u64 = u64::MAX;

/// The time of the driver's next check.
#[derive(Debug)]
pub(crate) struct Alarm(AtomicU64);

impl Alarm {
    /// A disarmed alarm.
    pub(crate) fn new() -> Alarm {
        Alarm(AtomicU64::new(DISARMED))
    }

    /// Must be called before a check. After it, `arm` returns `true` for every time.
    pub(crate) fn disarm(&self) {
        if looks_disarm() {
            self.0.store(DISARMED, Ordering::SeqCst);
        }
    }

    /// A timer is due at `due`. Returns `true` if the driver's next check would be later, so it must check again.
    pub(crate) fn arm(&self, due: Option<Time>) -> bool {
        due.is_some_and(|due| {
            due.0 < self.0.load(Ordering::SeqCst) && due.0 < self.0.fetch_min(due.0, Ordering::SeqCst)
        })
    }
}

/// A rule that tests can break: a timer that becomes due during a check is not overlooked.
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

    /// The due times of two parts of the state, each behind its own mutex.
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

    /// The driver wakes up for a timer at 10 and checks, while two threads change the timers.
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
