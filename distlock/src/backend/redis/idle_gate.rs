//! Requests in progress on one connection, and whether its supervisor sleeps until the next request.
//!
//! Rule: if [`IdleGate::may_sleep`] allows a supervisor to sleep, the next request wakes it. Both sides change
//! `in_flight` by a read-modify-write, so one of the two changes comes later: either the supervisor counts
//! the request, or the request sees that the supervisor sleeps.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug)]
pub(super) struct IdleGate {
    in_flight: AtomicUsize,
    /// The supervisor sleeps, and the next request must wake it.
    asleep: AtomicBool,
}

impl IdleGate {
    pub(super) fn new() -> IdleGate {
        IdleGate { in_flight: AtomicUsize::new(0), asleep: AtomicBool::new(false) }
    }

    /// Requests in progress.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// A request begins. `true`: the supervisor sleeps, and the caller must wake it.
    #[must_use]
    pub(super) fn begin(&self) -> bool {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// A request ends.
    pub(super) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Requests a wake-up by the next request. `false` if a request is already in progress.
    pub(super) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        // Not a load, because a load may miss a request that has begun and has not seen the store above.
        if self.in_flight.fetch_add(0, Ordering::AcqRel) == 0 {
            return true;
        }
        self.asleep.store(false, Ordering::Relaxed);
        false
    }
}

#[cfg(all(test, distlock_loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::IdleGate;

    /// These requests do not end. If a supervisor sleeps during a request, it must have been woken.
    fn nobody_sleeps_through(requests: usize) {
        loom::model(move || {
            let idle_gate = Arc::new(IdleGate::new());
            let begins: Vec<_> = (0..requests)
                .map(|_| {
                    let idle_gate = idle_gate.clone();
                    thread::spawn(move || idle_gate.begin())
                })
                .collect();
            let sleeps = idle_gate.may_sleep();
            let woken = begins.into_iter().map(|begin| begin.join().unwrap()).filter(|woken| *woken).count();
            assert_eq!(idle_gate.in_flight(), requests);
            assert!(!sleeps || woken == 1, "asleep with {requests} under way, woken {woken} times");
        });
    }

    #[test]
    fn loom_a_request_wakes_a_dozing_supervisor() {
        nobody_sleeps_through(1);
    }

    #[test]
    fn loom_one_of_two_requests_wakes_a_dozing_supervisor() {
        nobody_sleeps_through(2);
    }

    /// A request that came and went lets the supervisor sleep, and the next one wakes it.
    #[test]
    fn loom_the_request_after_one_that_has_ended_wakes_it() {
        loom::model(|| {
            let idle_gate = Arc::new(IdleGate::new());
            let requests = {
                let idle_gate = idle_gate.clone();
                thread::spawn(move || {
                    let first = idle_gate.begin();
                    idle_gate.end();
                    let second = idle_gate.begin();
                    first || second
                })
            };
            let sleeps = idle_gate.may_sleep();
            let woken = requests.join().unwrap();
            assert!(!sleeps || woken, "asleep with a request under way");
        });
    }
}
