//! A plan: when a command is asked to end, and when it is killed. It contains only times. `distlock run` and its
//! guardian each execute their own plan.

use std::time::Duration;

/// A step of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DueSignal {
    /// The signal that asks the command to end.
    Ask,
    Kill,
}

#[derive(Debug)]
pub(super) struct Plan {
    /// How long the command has to end after it was asked to. `None`: it is killed without being asked.
    grace: Option<Duration>,
    phase: Phase,
}

/// All times are of [`clock`](super::clock).
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The end of the command's time under the lease. `MAX` until the lease is known.
    Running {
        kill_at: Duration,
    },
    Asked {
        kill_at: Duration,
    },
    Killed,
}

impl Plan {
    pub(super) fn new(grace: Option<Duration>) -> Self {
        Plan { grace, phase: Phase::Running { kill_at: Duration::MAX } }
    }

    /// The lease lets the command run until `kill_at`. No effect if the command was already asked to end.
    pub(super) fn renewed(&mut self, kill_at: Duration) {
        if let Phase::Running { .. } = self.phase {
            self.phase = Phase::Running { kill_at };
        }
    }

    /// The other process has asked the command to end, and will kill it at `kill_at`.
    pub(super) fn asked(&mut self, kill_at: Duration) {
        if let Phase::Running { .. } = self.phase {
            self.phase = Phase::Asked { kill_at };
        }
    }

    /// Starts to end the command. It is never killed later than the lease requires.
    pub(super) fn end(&mut self, now: Duration) -> Option<DueSignal> {
        let Phase::Running { kill_at } = self.phase else { return None };
        let Some(grace) = self.grace else {
            self.phase = Phase::Killed;
            return Some(DueSignal::Kill);
        };
        self.phase = Phase::Asked { kill_at: kill_at.min(now.saturating_add(grace)) };
        Some(DueSignal::Ask)
    }

    /// Returns the steps that are due now, one at a time.
    pub(super) fn due(&mut self, now: Duration) -> Option<DueSignal> {
        match self.phase {
            Phase::Running { .. } if self.next().is_some_and(|next| now >= next) => self.end(now),
            Phase::Asked { kill_at } if now >= kill_at => {
                self.phase = Phase::Killed;
                Some(DueSignal::Kill)
            }
            Phase::Running { .. } | Phase::Asked { .. } | Phase::Killed => None,
        }
    }

    /// When the next step is due.
    pub(super) fn next(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running { kill_at: Duration::MAX } | Phase::Killed => None,
            Phase::Running { kill_at } => Some(kill_at.saturating_sub(self.grace.unwrap_or_default())),
            Phase::Asked { kill_at } => Some(kill_at),
        }
    }

    /// When a command that was asked to end will be killed.
    pub(super) fn kill_at(&self) -> Option<Duration> {
        match self.phase {
            Phase::Asked { kill_at } => Some(kill_at),
            Phase::Running { .. } | Phase::Killed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// All steps that are due until `now`.
    fn steps(plan: &mut Plan, now: Duration) -> Vec<DueSignal> {
        std::iter::from_fn(|| plan.due(now)).collect()
    }

    #[test]
    fn it_is_asked_before_the_lease_ends_and_killed_with_it() {
        let mut plan = Plan::new(Some(at(5)));
        assert_eq!((plan.next(), plan.due(at(1000))), (None, None), "the lease is not known");
        plan.renewed(at(20));
        plan.renewed(at(30));
        assert_eq!((plan.next(), plan.due(at(24))), (Some(at(25)), None));
        assert_eq!(steps(&mut plan, at(25)), [DueSignal::Ask]);
        plan.renewed(at(40));
        assert_eq!(plan.next(), Some(at(30)), "a renewal is too late for one that was asked to end");
        assert_eq!(steps(&mut plan, at(30)), [DueSignal::Kill]);
        assert_eq!((plan.next(), plan.due(at(1000))), (None, None));
    }

    #[test]
    fn a_loss_gives_no_more_time_than_the_lease_had() {
        let mut plan = Plan::new(Some(at(5)));
        plan.renewed(at(30));
        assert_eq!(plan.end(at(10)), Some(DueSignal::Ask));
        assert_eq!((plan.kill_at(), plan.end(at(11))), (Some(at(15)), None));
        let mut plan = Plan::new(Some(at(5)));
        plan.renewed(at(12));
        assert_eq!((plan.end(at(10)), plan.kill_at()), (Some(DueSignal::Ask), Some(at(12))));
        // The machine slept, so no time is left.
        let mut plan = Plan::new(Some(at(5)));
        plan.renewed(at(12));
        assert_eq!(steps(&mut plan, at(100)), [DueSignal::Ask, DueSignal::Kill]);
    }

    #[test]
    fn without_a_grace_it_is_killed_and_not_asked() {
        let mut plan = Plan::new(None);
        plan.renewed(at(30));
        assert_eq!((plan.next(), steps(&mut plan, at(29)).len()), (Some(at(30)), 0));
        assert_eq!(steps(&mut plan, at(30)), [DueSignal::Kill]);
        assert_eq!(Plan::new(None).end(at(1)), Some(DueSignal::Kill));
    }
}
