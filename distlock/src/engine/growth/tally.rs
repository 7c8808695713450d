//! Counts the commands of a fleet to its server.

use crate::engine::{Answer, Command};
use crate::protocol::AcquireReply;
use crate::protocol::op::{AcquireMode, Ask};

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The first attempt to take a lock.
    Take,
    /// A waiter's repeated question that was answered with the lock, as after a poll gap.
    Claim,
    /// A waiter's repeated question that left it waiting: it keeps the place in the queue alive.
    Heartbeat,
    Renew,
    Release,
}

impl Purpose {
    pub(super) fn of(command: &Command, answer: &Answer) -> Purpose {
        match (command, answer) {
            (Command::Release(..), _) => Purpose::Release,
            (Command::Renew(..), _) => Purpose::Renew,
            (Command::Acquire(_, Ask::Full(op)), Answer::Acquire(_, reply))
                if matches!(op.mode, AcquireMode::WaitAgain | AcquireMode::PollAgain) =>
            {
                match reply {
                    Ok(AcquireReply::Busy { .. }) => Purpose::Heartbeat,
                    _ => Purpose::Claim,
                }
            }
            (Command::Acquire(..) | Command::Replace(..), _) => Purpose::Take,
        }
    }
}

/// How much of the server's memory each item takes, in bytes. Measured by `backend::redis::growth_tests`, as
/// `docs/scale.md` says.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    lock: usize,
    place: usize,
    connection: usize,
}

impl Sizes {
    const MEASURED: Sizes = Sizes { lock: 165, place: 176, connection: 38_000 };
}

/// Counts, from the end of the warm-up on.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) sections: u64,
    takes: u64,
    claims: u64,
    heartbeats: u64,
    renewals: u64,
    releases: u64,
    pub(super) pushes: u64,
    /// For how long the server was busy, in nanoseconds.
    pub(super) busy: u64,
    /// For how long the counts were taken, in nanoseconds.
    pub(super) lasted: u64,
    /// From asking to holding: of all sections together, and the longest.
    waited: u64,
    pub(super) longest_wait: u64,
    /// When the last section ended.
    pub(super) last_end: u64,
    /// Locks on the server at the end, and places in its queues.
    pub(super) locks: usize,
    pub(super) queued: usize,
}

impl Tally {
    pub(super) fn count(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Take => self.takes += 1,
            Purpose::Claim => self.claims += 1,
            Purpose::Heartbeat => self.heartbeats += 1,
            Purpose::Renew => self.renewals += 1,
            Purpose::Release => self.releases += 1,
        }
    }

    pub(super) fn waited(&mut self, time: u64) {
        self.waited += time;
        self.longest_wait = self.longest_wait.max(time);
    }

    pub(super) fn mean_wait(&self) -> f64 {
        self.waited as f64 / self.sections.max(1) as f64
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.lasted as f64
    }

    pub(super) fn sections_per_second(&self) -> f64 {
        self.per_second(self.sections)
    }

    pub(super) fn heartbeats_per_second(&self) -> f64 {
        self.per_second(self.heartbeats)
    }

    pub(super) fn renewals_per_second(&self) -> f64 {
        self.per_second(self.renewals)
    }

    /// Commands that take locks and release them: all but heartbeats and renewals, whose number depends on the time.
    pub(super) fn per_section(&self) -> f64 {
        (self.takes + self.claims + self.releases) as f64 / self.sections.max(1) as f64
    }

    pub(super) fn commands_per_second(&self) -> f64 {
        self.per_second(self.takes + self.claims + self.heartbeats + self.renewals + self.releases)
    }

    /// The part of the time for which the server was busy.
    pub(super) fn load(&self) -> f64 {
        self.busy as f64 / self.lasted as f64
    }

    /// In bytes, computed: the memory of the locks, of the places in queues, and of two recently used connections of
    /// each process.
    fn server_memory(&self, processes: usize) -> usize {
        self.locks * Sizes::MEASURED.lock
            + self.queued * Sizes::MEASURED.place
            + 2 * processes * Sizes::MEASURED.connection
    }

    pub(super) fn json(&self, what: &str, processes: usize) -> String {
        format!(
            "{{\"load\":\"{what}\",\"processes\":{processes},\"sections_per_s\":{:.1},\
             \"commands_per_section\":{:.3},\"heartbeats_per_s\":{:.1},\"renewals_per_s\":{:.1},\
             \"commands_per_s\":{:.1},\"pushes_per_s\":{:.1},\"server_busy\":{:.4},\"locks\":{},\"queued\":{},\
             \"server_memory\":{}}}",
            self.sections_per_second(),
            self.per_section(),
            self.heartbeats_per_second(),
            self.renewals_per_second(),
            self.commands_per_second(),
            self.per_second(self.pushes),
            self.load(),
            self.locks,
            self.queued,
            self.server_memory(processes),
        )
    }
}
