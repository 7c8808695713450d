//! The parameters of a run.

use fastrand::Rng;

use crate::simulation::Notice;
pub(super) use crate::simulation::{MILLI, SECOND};

/// Times are in nanoseconds unless a field says otherwise. Probabilities are between 0 and 1. Counts are for one run.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) servers: usize,
    pub(super) processes: usize,
    pub(super) keys: usize,
    pub(super) requests: usize,
    /// Requests and faults happen before this.
    pub(super) horizon: u64,
    /// In milliseconds.
    pub(super) ttl: u64,
    /// In milliseconds.
    pub(super) longest_hold: u64,
    pub(super) renews: f64,
    pub(super) fenced: f64,
    pub(super) once: f64,
    pub(super) cancel: f64,
    /// One way, in microseconds.
    pub(super) delay: (u64, u64),
    /// The drift of local clocks from the servers' clocks, in parts per million.
    pub(super) drift: i64,
    /// The maximum difference between the wall clocks of processes, in microseconds.
    pub(super) skew: u64,
    pub(super) push_loss: f64,
    pub(super) breaks: u32,
    pub(super) hangs: u32,
    pub(super) stops: u32,
    /// A server that stopped restarts without its data.
    pub(super) wiped: bool,
    /// How often clocks of a minority are set.
    pub(super) steps: u32,
    pub(super) crashes: u32,
    /// Some leases are this many times as long as the ttl that the processes are configured with.
    pub(super) spread: u32,
    /// How often servers lose their data without a restart.
    pub(super) flushes: u32,
    /// Whether processes probe a server as soon as it has lost its data.
    pub(super) notice: Notice,
    /// Servers also lose locks that no majority of the others has. No promise covers this, so overlaps are only
    /// measured.
    pub(super) unrepaired: bool,
    /// The share of connections after which commands of the former connection may still arrive.
    pub(super) former_links_alive: f64,
    /// The share of connections without pushes.
    pub(super) deaf: f64,
    /// The share of commands that are refused temporarily.
    pub(super) later: f64,
    /// How often a server refuses, for a while, all commands that acquire locks.
    pub(super) refusals: u32,
    pub(super) min_hold: f64,
    /// A thread that releases a lock is preempted before it sends, and others send before it.
    pub(super) overtaken: f64,
    /// A holder requests more fencing tokens, or a request is sent twice.
    pub(super) more: f64,
    /// The counters of fencing tokens are ahead of all clocks.
    pub(super) ahead: bool,
    pub(super) pauses: u32,
    /// A server that replies this many milliseconds later than the others.
    pub(super) slow: Option<(usize, u64)>,
    /// How often locks are released by force.
    pub(super) force: u32,
    /// Stops, hangs and broken connections affect only the queue server of the first key.
    pub(super) at_queue: bool,
    /// In milliseconds.
    pub(super) longest_hang: u64,
    /// The time after which a process drops a silent connection, in milliseconds.
    pub(super) patience: u64,
    /// The maximum time for which a key may stay free while a process waits for it, in milliseconds.
    pub(super) stall: Option<u64>,
    /// The maximum time for which a process may wait for a key, in milliseconds.
    pub(super) longest_wait: Option<u64>,
    /// The share of first requests that do not queue, for a key that is not known to be contended.
    pub(super) plain: f64,
    /// The maximum average number of commands for one section.
    pub(super) most_commands: Option<u64>,
}

impl Config {
    pub(super) fn draw(rng: &mut Rng) -> Config {
        let pick = |rng: &mut Rng, of: &[u64]| of[rng.usize(0..of.len())];
        let ttl = pick(rng, &[300, 1_000, 3_000, 20_000]);
        let often = |rng: &mut Rng, value: f64| if rng.u32(0..4) == 0 { value } else { 0.0 };
        let sometimes = |rng: &mut Rng, most: u32| if rng.u32(0..3) == 0 { rng.u32(0..most) } else { 0 };
        Config {
            servers: if rng.u32(0..3) == 0 { 3 } else { 5 },
            processes: rng.usize(1..10),
            keys: rng.usize(1..3),
            requests: rng.usize(6..30),
            horizon: rng.u64(1..8) * SECOND,
            ttl,
            longest_hold: pick(rng, &[2, 20, 400, 2_000]),
            renews: [1.0, 0.5, 0.0][rng.usize(0..3)],
            fenced: [0.0, 0.5, 1.0][rng.usize(0..3)],
            once: [0.0, 0.2][rng.usize(0..2)],
            cancel: [0.0, 0.3][rng.usize(0..2)],
            delay: [(50, 300), (100, 3_000), (1_000, 30_000)][rng.usize(0..3)],
            drift: [0, 9_000][rng.usize(0..2)],
            skew: 60_000_000,
            push_loss: [0.0, 0.0, 0.3][rng.usize(0..3)],
            breaks: rng.u32(0..6),
            hangs: rng.u32(0..3),
            stops: rng.u32(0..4),
            wiped: rng.bool(),
            steps: rng.u32(0..3),
            crashes: rng.u32(0..3),
            spread: [1, 1, 4][rng.usize(0..3)],
            flushes: sometimes(rng, 4),
            notice: if rng.bool() { Notice::Comes } else { Notice::Never },
            unrepaired: false,
            former_links_alive: often(rng, 0.5),
            deaf: often(rng, 0.5),
            later: often(rng, 0.05),
            refusals: sometimes(rng, 3),
            min_hold: often(rng, 0.3),
            overtaken: 0.0,
            more: often(rng, 0.5),
            ahead: rng.u32(0..4) == 0,
            pauses: sometimes(rng, 3),
            slow: (rng.u32(0..6) == 0).then(|| (rng.usize(0..3), rng.u64(5..300))),
            force: sometimes(rng, 2),
            at_queue: false,
            longest_hang: 4_000,
            patience: 750,
            stall: None,
            longest_wait: None,
            plain: 0.5,
            most_commands: None,
        }
    }

    /// The number of servers that may be lost.
    pub(super) fn minority(&self) -> usize {
        (self.servers - 1) / 2
    }

    /// Whether the run has no faults except slow replies.
    pub(super) fn is_calm(&self) -> bool {
        let faults = self.breaks + self.hangs + self.stops + self.steps + self.crashes;
        let more = self.flushes + self.refusals + self.pauses + self.force;
        let lost = self.push_loss + self.former_links_alive + self.deaf + self.later;
        faults + more == 0 && lost == 0.0 && self.slow.is_none()
    }
}
