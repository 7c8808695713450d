//! The messages from `distlock run` to its guardian, and the guardian's decisions. Lines of text and times come in,
//! signals go out.

use std::time::Duration;

use super::group::Group;
use super::plan::{DueSignal, Plan};
use crate::exit::Exit;

pub(super) const DONE: &str = "done\n";
const KILLED: &str = "`distlock run` was killed";
const STANDS_STILL: &str = "the lease is about to end, and `distlock run` is paused";

pub(super) fn group(group: Group) -> String {
    format!("group {}\n", group.pid().as_raw_nonzero())
}

pub(super) fn until(kill_at: Duration) -> String {
    format!("until {}\n", kill_at.as_nanos())
}

pub(super) fn asked(kill_at: Duration) -> String {
    format!("asked {}\n", kill_at.as_nanos())
}

/// The guardian's side of the pipe.
#[derive(Debug)]
pub(super) struct Orders {
    plan: Plan,
    /// The step that became due at the end of the pipe.
    at_once: Option<DueSignal>,
    group: Option<Group>,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    is_open: bool,
    is_done: bool,
    /// The reason of the first signal, after it became due.
    why: Option<&'static str>,
}

impl Orders {
    pub(super) fn new(grace: Option<Duration>) -> Self {
        Orders {
            plan: Plan::new(grace),
            at_once: None,
            group: None,
            line: Vec::new(),
            is_open: true,
            is_done: false,
            why: None,
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.obey(&String::from_utf8_lossy(&line));
            } else {
                self.line.push(*byte);
            }
        }
    }

    fn obey(&mut self, line: &str) {
        let time = |text: &str| text.parse().ok().map(Duration::from_nanos);
        match line.split_once(' ') {
            Some(("group", number)) => {
                self.group = number.parse().ok().and_then(|number| Group::of(number).ok());
            }
            Some(("until", text)) => {
                if let Some(kill_at) = time(text) {
                    self.plan.renewed(kill_at);
                }
            }
            Some(("asked", text)) => {
                if let Some(kill_at) = time(text) {
                    self.plan.asked(kill_at);
                }
            }
            _ => self.is_done |= line == DONE.trim_end(),
        }
    }

    /// The pipe has ended.
    pub(super) fn closed(&mut self, now: Duration) {
        self.is_open = false;
        if !self.is_done {
            self.at_once = self.plan.end(now);
        }
    }

    /// Returns the signals that are due now, one at a time.
    pub(super) fn due(&mut self, now: Duration) -> Option<(DueSignal, Group)> {
        if self.is_done {
            return None;
        }
        let group = self.group?;
        let step = self.at_once.take().or_else(|| self.plan.due(now))?;
        self.why.get_or_insert(if self.is_open { STANDS_STILL } else { KILLED });
        Some((step, group))
    }

    /// Why the guardian has ended the command. `None`: it has not, or `distlock run` reports it.
    pub(super) fn untold(&self) -> Option<&'static str> {
        self.why.filter(|_| !self.is_done)
    }

    /// When the next signal is due.
    pub(super) fn next(&self) -> Option<Duration> {
        self.plan.next()
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the guardian ends as soon as no process of the command is left.
    pub(super) fn is_ending(&self) -> bool {
        self.why.is_some() || !self.is_open
    }

    /// The exit status of the guardian, if its work is done.
    pub(super) fn exit(&self, is_gone: impl Fn(Group) -> bool) -> Option<Exit> {
        let is_over = match self.group {
            _ if self.is_done => true,
            Some(group) => self.is_ending() && is_gone(group),
            None => !self.is_open,
        };
        is_over.then_some(if self.why.is_some() { Exit::Lost } else { Exit::Success })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(4);

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn watching(lines: &[String]) -> Orders {
        let mut orders = Orders::new(Some(GRACE));
        orders.read(group(Group::of(4711).unwrap()).as_bytes());
        for line in lines {
            orders.read(line.as_bytes());
        }
        orders
    }

    fn steps(orders: &mut Orders, now: Duration) -> Vec<DueSignal> {
        std::iter::from_fn(|| orders.due(now)).map(|(step, _)| step).collect()
    }

    #[test]
    fn it_acts_by_itself_if_nobody_tells_it_of_a_renewal() {
        let mut orders = watching(&[until(at(20)), until(at(30))]);
        assert_eq!((orders.next(), steps(&mut orders, at(25)).len()), (Some(at(26)), 0));
        assert_eq!((steps(&mut orders, at(26)), orders.untold()), (vec![DueSignal::Ask], Some(STANDS_STILL)));
        assert_eq!(steps(&mut orders, at(30)), [DueSignal::Kill]);
        assert_eq!(orders.exit(|_| false), None, "somebody is left");
        assert_eq!(orders.exit(|_| true), Some(Exit::Lost));
        orders.read(DONE.as_bytes());
        assert_eq!((orders.exit(|_| true), orders.untold()), (Some(Exit::Lost), None), "`run` says it");
    }

    #[test]
    fn a_run_that_is_killed_has_its_command_ended_at_once() {
        let mut orders = watching(&[until(at(30))]);
        orders.closed(at(10));
        assert_eq!((steps(&mut orders, at(10)), orders.untold()), (vec![DueSignal::Ask], Some(KILLED)));
        assert_eq!(orders.next(), Some(at(14)));
    }

    #[test]
    fn a_run_that_is_killed_while_it_ends_the_command_gives_it_no_further_time() {
        let mut orders = watching(&[until(at(30)), asked(at(30))]);
        orders.closed(at(29));
        assert_eq!((steps(&mut orders, at(29)).len(), orders.next()), (0, Some(at(30))));
        assert_eq!(steps(&mut orders, at(30)), [DueSignal::Kill]);
    }

    #[test]
    fn an_orderly_end_and_an_early_one_are_no_reason_to_act() {
        let mut orders = watching(&[until(at(30)), DONE.to_owned()]);
        orders.closed(at(50));
        assert_eq!((steps(&mut orders, at(50)).len(), orders.exit(|_| false)), (0, Some(Exit::Success)));
        let mut orders = Orders::new(Some(GRACE));
        orders.closed(at(50));
        assert_eq!((steps(&mut orders, at(50)).len(), orders.exit(|_| false)), (0, Some(Exit::Success)));
    }

    /// Wherever the bytes are cut, and whenever the pipe ends, the command is killed by the end of the last known
    /// lease. It is asked to end before the kill, and never after it.
    #[test]
    fn whatever_happens_it_is_over_when_the_lease_is() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..20_000 {
            let mut orders = watching(&[until(at(10))]);
            let (mut now, mut lease, mut seen) = (at(0), at(10), Vec::new());
            for _ in 0..random(12) {
                now += Duration::from_millis(random(3000));
                seen.extend(steps(&mut orders, now));
                match random(6) {
                    0 => orders.closed(now),
                    1 if seen.is_empty() && orders.is_open() => orders.read(asked(now + GRACE).as_bytes()),
                    _ if orders.is_open() && orders.plan.kill_at().is_none() && seen.is_empty() => {
                        lease = lease.max(now + at(10));
                        let line = until(lease);
                        let (start, end) = line.split_at(random(line.len() as u64) as usize);
                        orders.read(start.as_bytes());
                        orders.read(end.as_bytes());
                    }
                    _ => {}
                }
                seen.extend(steps(&mut orders, now));
            }
            seen.extend(steps(&mut orders, now.max(lease)));
            assert_eq!(seen.last(), Some(&DueSignal::Kill), "{seen:?} {orders:?}");
            assert!(seen.len() <= 2, "{seen:?}");
        }
    }
}
