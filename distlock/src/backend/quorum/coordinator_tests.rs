//! Single steps of the coordinator, on a clock that the test sets.

use std::time::Duration;

use super::coordinator::Coordinator;
use super::effect::{Effect, NewLink, Now};
use super::member::{Eligibility, Member, ServerMemory};
use crate::backend::redis::{Mark, Origin};
use crate::backend::{EarlierCommands, Failure, LinkEvent, Notifications, ServerTime, StoreError};
use crate::protocol::Time;

const TTL: Duration = Duration::from_secs(10);

/// In milliseconds.
fn at(time: u64) -> Now {
    Now { time: Time(time * 1_000_000), wall: 1_790_000_000_000_000 + time * 1_000 }
}

/// A server without notes, whose clock is ahead by `ahead` milliseconds.
fn origin(run: &str, now: Now, ahead: u64) -> Origin {
    let server_time = ServerTime(now.wall + ahead * 1_000);
    let (run_id, longest_ttl) = (run.to_owned(), Duration::ZERO);
    Origin { run_id, server_time, attested: None, met: None, longest_ttl, fences: 0 }
}

fn quorum(servers: usize) -> Coordinator {
    Coordinator::new((0..servers).map(|node| node.to_string()).collect(), TTL, 1)
}

impl Coordinator {
    fn joins(&mut self, now: Now, node: usize, origin: Origin) {
        let (sent, earlier, pushes) = (now.time, EarlierCommands::Ended, Notifications::On);
        self.member_joined(now, node, NewLink { sent, earlier, pushes, origin });
    }

    fn joins_with_its_data(&mut self, now: Now, node: usize) {
        let run = node.to_string();
        self.joins(now, node, Origin { attested: Some(run.clone()), ..origin(&run, now, 0) });
    }

    /// The servers that begin to count, and their counters.
    fn counters(&mut self) -> Vec<(usize, u64)> {
        let counter = |effect: Effect| match effect {
            Effect::Note { node, note } if note.mark == Mark::Count => Some((node, note.fences)),
            _ => None,
        };
        self.take_effects().into_iter().filter_map(counter).collect()
    }
}

/// Otherwise, notes about when it was met, and that it counts, would have no effect.
#[test]
fn a_server_that_comes_back_with_another_clock_is_young_and_not_set_forward() {
    let mut member = Member::new();
    for (run, now, ahead) in [("1", at(0), 0), ("2", at(1_000), 500)] {
        let origin = origin(run, now, ahead);
        assert_eq!(member.joined(now.time, now.time, &origin), ServerMemory::Lost);
        assert_eq!(member.heard_time(origin.server_time, now.time, now.time), ServerMemory::Kept);
        assert_eq!(member.eligibility, Eligibility::TooYoung(now.time));
    }
}

/// The clock of the second server is set forward after it has lost its data.
#[test]
fn a_server_without_its_data_knows_no_counter_although_its_clock_was_set_forward() {
    let mut quorum = quorum(5);
    for node in [2, 3] {
        quorum.joins_with_its_data(at(0), node);
    }
    for node in [0, 1] {
        quorum.joins(at(0), node, origin(&node.to_string(), at(0), 0));
    }
    quorum.looked(at(1_000), 1, at(1_000).time, &origin("1", at(1_000), 5_000));
    assert!(matches!(quorum.members[1].eligibility, Eligibility::ClockStepped(_)));
    // Two servers with their data are no majority of five.
    quorum.fire(at(12_000));
    assert_eq!(quorum.counters(), []);
    // After the time limit, both get a counter that is above all that may have been forgotten.
    let now = at(30_000);
    quorum.fire(now);
    let counters = quorum.counters();
    assert!(counters.len() == 2 && counters.iter().all(|(_, counter)| *counter > now.wall), "{counters:?}");
}

/// The second server is lost while the majority waits for the third.
#[test]
fn a_majority_that_is_lost_before_it_is_reported_is_not_reported() {
    let mut quorum = quorum(3);
    for node in [0, 1] {
        quorum.joins_with_its_data(at(0), node);
    }
    quorum.member_left(at(100), 1, StoreError::new(Failure::Unknown, "the connection broke"));
    quorum.fire(at(250));
    let is_up = |effect: &Effect| matches!(effect, Effect::Link(LinkEvent::Up { .. }));
    assert!(!quorum.take_effects().iter().any(is_up));
    assert!(quorum.next_due() > Some(at(250).time), "{:?}", quorum.next_due());
}
