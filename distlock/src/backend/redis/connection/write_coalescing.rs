//! Write coalescing: when commands are written to the socket, and when they wait for more commands.
//!
//! A write costs the client and the server a system call each, and wakes a thread on both sides, however few commands
//! it carries. So commands are held back while tasks have not taken their replies, because those tasks will send more
//! commands. The last of these tasks writes for all of them.
//!
//! If the server is near, commands are also held back while it is busy with earlier ones, because it reads from its
//! socket when it has replied to those. Two writes in flight keep the server busy, and one is enough while tasks are
//! about to run. If the callers' runtime reads, it reads nothing before these tasks have run. In that case, the second
//! write is sent when half of them have run, so the server works while the other half runs. If the server is far, a
//! reply takes as long as the link does, and no command waits for it.
//!
//! Commands that were held back are written when a reply arrives. If none arrives within [`MAX_WRITE_DELAY`], they are
//! written together with the next command, or by a timer of the I/O thread. The timer may be late by a millisecond or
//! two.

use std::collections::VecDeque;
use std::time::Duration;

use super::reader_policy::Reader;
use distlock_store::engine::Time;

/// With this many writes in flight to a near server, commands are held back.
const MAX_WRITES_IN_FLIGHT: usize = 2;
/// A server is near if it has ever replied within this time while no other request was in flight: it is on the same
/// machine, or next to it.
const NEAR_ROUND_TRIP: Duration = Duration::from_micros(150);
/// No command is held back if the last write was longer ago than this.
pub(super) const MAX_WRITE_DELAY: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(super) struct WriteCoalescing {
    /// The number of replies to all commands so far.
    expected: u64,
    /// How many of these have arrived.
    answered: u64,
    /// For each write in flight, the number of replies after which it has been answered.
    writes: VecDeque<u64>,
    last_write: Time,
    /// The time of the last write, if nothing was in flight before it and no reply has arrived since then.
    alone_since: Option<Time>,
    /// The shortest round trip of such a write. (While the server is busy, the time shows its load and not its
    /// distance.)
    round_trip: Duration,
}

impl Default for WriteCoalescing {
    fn default() -> WriteCoalescing {
        WriteCoalescing {
            expected: 0,
            answered: 0,
            writes: VecDeque::new(),
            last_write: Time(0),
            alone_since: None,
            round_trip: Duration::MAX,
        }
    }
}

impl WriteCoalescing {
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

    /// Whether commands must be written now. `untaken` is the number of tasks that have not taken their replies.
    pub(super) fn may_write(&self, untaken: usize, reader: Reader, now: impl FnOnce() -> Time) -> bool {
        let written = self.writes.back().copied().unwrap_or(self.answered);
        let held_back = self.expected.saturating_sub(written);
        let goes_out = match reader {
            Reader::IoThread => untaken == 0,
            Reader::Caller(_) => held_back >= untaken as u64,
        };
        let most = match (goes_out, self.round_trip <= NEAR_ROUND_TRIP) {
            (true, true) => MAX_WRITES_IN_FLIGHT,
            (true, false) => usize::MAX,
            (false, _) => 1,
        };
        self.writes.len() < most || now().duration_since(self.last_write) >= MAX_WRITE_DELAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::connection::reader_policy::A_CALLER;
    use Reader::IoThread;

    const NOW: Time = Time(1_000_000_000);

    /// For a server that replies after `round_trip` to a request while no other is in flight.
    fn coalescing_to(round_trip: Duration) -> WriteCoalescing {
        let mut coalescing = WriteCoalescing::default();
        coalescing.expect(1);
        coalescing.write(NOW);
        coalescing.answered(0, || NOW);
        coalescing.answered(1, || NOW.after(round_trip));
        coalescing
    }

    fn coalescing_with_writes(writes: usize) -> WriteCoalescing {
        let mut coalescing = coalescing_to(NEAR_ROUND_TRIP);
        for _ in 0..writes {
            coalescing.expect(3);
            coalescing.write(NOW);
        }
        coalescing
    }

    #[test]
    fn on_an_idle_connection_everything_is_written_at_once() {
        assert!(coalescing_with_writes(0).may_write(0, IoThread, || NOW));
        assert!(
            coalescing_with_writes(0).may_write(5, IoThread, || NOW),
            "no other command would make a reply come"
        );
    }

    #[test]
    fn two_writes_are_under_way_at_most_and_one_while_tasks_are_about_to_run() {
        assert!(coalescing_with_writes(1).may_write(0, IoThread, || NOW));
        assert!(!coalescing_with_writes(1).may_write(1, IoThread, || NOW));
        assert!(!coalescing_with_writes(2).may_write(0, IoThread, || NOW));
    }

    #[test]
    fn with_the_callers_runtime_the_second_write_goes_out_when_half_of_the_tasks_have_run() {
        let mut coalescing = coalescing_with_writes(1);
        coalescing.expect(2);
        assert!(!coalescing.may_write(3, A_CALLER, || NOW), "two commands, three to come");
        assert!(coalescing.may_write(2, A_CALLER, || NOW));
        assert!(!coalescing.may_write(2, IoThread, || NOW));
        coalescing.write(NOW);
        coalescing.expect(2);
        assert!(!coalescing.may_write(0, A_CALLER, || NOW), "the third");
    }

    #[test]
    fn a_write_is_under_way_until_its_last_reply_has_come() {
        let mut coalescing = coalescing_with_writes(2);
        coalescing.answered(2, || NOW);
        assert!(!coalescing.may_write(0, IoThread, || NOW));
        coalescing.answered(1, || NOW);
        assert!(coalescing.may_write(0, IoThread, || NOW));
        coalescing.answered(3, || NOW);
        assert!(coalescing.may_write(9, IoThread, || NOW));
    }

    #[test]
    fn no_command_waits_for_the_replies_of_a_far_server() {
        for mut coalescing in
            [WriteCoalescing::default(), coalescing_to(NEAR_ROUND_TRIP + Duration::from_nanos(1))]
        {
            for _ in 0..7 {
                coalescing.expect(3);
                assert!(coalescing.may_write(0, IoThread, || NOW));
                coalescing.write(NOW);
            }
            coalescing.expect(1);
            assert!(!coalescing.may_write(2, IoThread, || NOW), "two tasks are about to send theirs");
            assert!(!coalescing.may_write(2, A_CALLER, || NOW));
        }
    }

    #[test]
    fn only_a_request_that_is_alone_shows_how_far_the_server_is() {
        let mut coalescing = coalescing_to(NEAR_ROUND_TRIP / 2);
        for _ in 0..3 {
            coalescing.expect(1);
            coalescing.write(NOW);
        }
        // The first write was alone, and the others waited for it.
        coalescing.answered(3, || NOW.after(NEAR_ROUND_TRIP * 3));
        assert_eq!(coalescing.round_trip, NEAR_ROUND_TRIP / 2);
        coalescing.expect(2);
        coalescing.write(NOW);
        coalescing.answered(1, || NOW.after(NEAR_ROUND_TRIP / 4));
        coalescing.answered(1, || NOW);
        assert_eq!(coalescing.round_trip, NEAR_ROUND_TRIP / 4);
    }

    #[test]
    fn nothing_is_held_back_for_long() {
        let coalescing = coalescing_with_writes(7);
        assert!(!coalescing.may_write(3, IoThread, || NOW.after(MAX_WRITE_DELAY / 2)));
        assert!(coalescing.may_write(3, IoThread, || NOW.after(MAX_WRITE_DELAY)));
    }
}
