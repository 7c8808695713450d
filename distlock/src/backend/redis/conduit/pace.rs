//! When commands are written to the socket.
//!
//! A write costs the client and the server a system call each, and wakes a thread on both sides, however few
//! commands it carries. So commands are collected while tasks have replies to act upon, because their commands are
//! still to come: the last of these tasks writes for all of them.
//!
//! If the server is near, commands are also collected while it is busy with earlier ones: it takes them from its socket
//! when it has replied to those. Two writes under way are enough to keep it busy, and one while tasks are about to run.
//! A guest reads no reply before these tasks have run: the second write goes out when half of them have, so that the
//! server works while the other half run. If the server is far, a reply takes as long as the link, and no command
//! waits for it.
//!
//! Whatever is held back is written when a reply comes, and after [`LONGEST_HOLD`] if none does: then the next command
//! that follows takes it along, or a timer of the I/O thread writes it, which is late by a millisecond or two.

use std::collections::VecDeque;
use std::time::Duration;

use super::lending::Reader;
use distlock_store::engine::Time;

/// How many writes may be under way to a near server before commands are held back.
const WRITES_UNDER_WAY: usize = 2;
/// A server is near if it has ever answered the only request under way within this time: it is on the same machine, or
/// next to it.
const NEAR: Duration = Duration::from_micros(150);
/// When the last write was longer ago than this, nothing is held back.
pub(super) const LONGEST_HOLD: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(super) struct Pace {
    /// How many replies all commands so far get.
    expected: u64,
    /// How many have come.
    answered: u64,
    /// Of each write under way: when that many replies have come, it has been answered.
    writes: VecDeque<u64>,
    last_write: Time,
    /// When the last write went out, if nothing was under way before it and no reply has come since.
    alone_since: Option<Time>,
    /// The shortest time that the server took then. (While it is busy, the time says how busy, not how far.)
    round_trip: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            expected: 0,
            answered: 0,
            writes: VecDeque::new(),
            last_write: Time(0),
            alone_since: None,
            round_trip: Duration::MAX,
        }
    }
}

impl Pace {
    pub(super) fn expect(&mut self, replies: usize) {
        self.expected += replies as u64;
    }

    /// All commands so far are being written.
    pub(super) fn write(&mut self, now: Time) {
        self.last_write = now;
        if self.writes.is_empty() {
            self.alone_since = Some(now);
        }
        if self.writes.back() != Some(&self.expected) {
            self.writes.push_back(self.expected);
        }
    }

    pub(super) fn answered(&mut self, replies: usize, now: impl FnOnce() -> Time) {
        if let Some(since) = self.alone_since.take_if(|_| replies > 0) {
            self.round_trip = self.round_trip.min(now().duration_since(since));
        }
        self.answered += replies as u64;
        while self.writes.front().is_some_and(|write| *write <= self.answered) {
            self.writes.pop_front();
        }
    }

    /// Whether commands are to be written now. `untaken`: how many tasks have replies to act upon.
    pub(super) fn may_write(&self, untaken: usize, reader: Reader, now: impl FnOnce() -> Time) -> bool {
        let written = self.writes.back().copied().unwrap_or(self.answered);
        let held_back = self.expected.saturating_sub(written);
        let goes_out = match reader {
            Reader::Home => untaken == 0,
            Reader::Guest(_) => held_back >= untaken as u64,
        };
        let most = match (goes_out, self.round_trip <= NEAR) {
            (true, true) => WRITES_UNDER_WAY,
            (true, false) => usize::MAX,
            (false, _) => 1,
        };
        self.writes.len() < most || now().duration_since(self.last_write) >= LONGEST_HOLD
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::conduit::lending::A_GUEST;
    use Reader::Home;

    const NOW: Time = Time(1_000_000_000);

    /// With a server that answers a lonely request after `round_trip`.
    fn pace_to(round_trip: Duration) -> Pace {
        let mut pace = Pace::default();
        pace.expect(1);
        pace.write(NOW);
        pace.answered(0, || NOW);
        pace.answered(1, || NOW.after(round_trip));
        pace
    }

    fn pace_with_writes(writes: usize) -> Pace {
        let mut pace = pace_to(NEAR);
        for _ in 0..writes {
            pace.expect(3);
            pace.write(NOW);
        }
        pace
    }

    #[test]
    fn on_an_idle_connection_everything_is_written_at_once() {
        assert!(pace_with_writes(0).may_write(0, Home, || NOW));
        assert!(pace_with_writes(0).may_write(5, Home, || NOW), "nobody else would make a reply come");
    }

    #[test]
    fn two_writes_are_under_way_at_most_and_one_while_tasks_are_about_to_run() {
        assert!(pace_with_writes(1).may_write(0, Home, || NOW));
        assert!(!pace_with_writes(1).may_write(1, Home, || NOW));
        assert!(!pace_with_writes(2).may_write(0, Home, || NOW));
    }

    #[test]
    fn with_a_guest_the_second_write_goes_out_when_half_of_the_tasks_have_run() {
        let mut pace = pace_with_writes(1);
        pace.expect(2);
        assert!(!pace.may_write(3, A_GUEST, || NOW), "two commands, three to come");
        assert!(pace.may_write(2, A_GUEST, || NOW));
        assert!(!pace.may_write(2, Home, || NOW));
        pace.write(NOW);
        pace.expect(2);
        assert!(!pace.may_write(0, A_GUEST, || NOW), "the third");
    }

    #[test]
    fn a_write_is_under_way_until_its_last_reply_has_come() {
        let mut pace = pace_with_writes(2);
        pace.answered(2, || NOW);
        assert!(!pace.may_write(0, Home, || NOW));
        pace.answered(1, || NOW);
        assert!(pace.may_write(0, Home, || NOW));
        pace.answered(3, || NOW);
        assert!(pace.may_write(9, Home, || NOW));
    }

    #[test]
    fn no_command_waits_for_the_replies_of_a_far_server() {
        for mut pace in [Pace::default(), pace_to(NEAR + Duration::from_nanos(1))] {
            for _ in 0..7 {
                pace.expect(3);
                assert!(pace.may_write(0, Home, || NOW));
                pace.write(NOW);
            }
            pace.expect(1);
            assert!(!pace.may_write(2, Home, || NOW), "two tasks are about to send theirs");
            assert!(!pace.may_write(2, A_GUEST, || NOW));
        }
    }

    #[test]
    fn only_a_request_that_is_alone_tells_how_far_the_server_is() {
        let mut pace = pace_to(NEAR / 2);
        for _ in 0..3 {
            pace.expect(1);
            pace.write(NOW);
        }
        // The first of them was alone, and the others waited for it.
        pace.answered(3, || NOW.after(NEAR * 3));
        assert_eq!(pace.round_trip, NEAR / 2);
        pace.expect(2);
        pace.write(NOW);
        pace.answered(1, || NOW.after(NEAR / 4));
        pace.answered(1, || NOW);
        assert_eq!(pace.round_trip, NEAR / 4);
    }

    #[test]
    fn nothing_is_held_back_for_long() {
        let pace = pace_with_writes(7);
        assert!(!pace.may_write(3, Home, || NOW.after(LONGEST_HOLD / 2)));
        assert!(pace.may_write(3, Home, || NOW.after(LONGEST_HOLD)));
    }
}
