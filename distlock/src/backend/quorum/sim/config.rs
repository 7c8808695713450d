//! What a run is like.

use fastrand::Rng;

pub(super) const MILLI: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MILLI;

/// Times in nanoseconds unless said otherwise; probabilities between 0 and 1; counts per run.
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
    /// Parts per million that local clocks may be off the servers'.
    pub(super) drift: i64,
    /// How far apart the wall clocks of processes may be, in microseconds.
    pub(super) skew: u64,
    pub(super) push_loss: f64,
    pub(super) breaks: u32,
    pub(super) hangs: u32,
    pub(super) stops: u32,
    /// A server that stopped comes back without its data.
    pub(super) wiped: bool,
    /// Clocks of a minority are stepped.
    pub(super) steps: u32,
    pub(super) crashes: u32,
}

impl Config {
    pub(super) fn draw(rng: &mut Rng) -> Config {
        let pick = |rng: &mut Rng, of: &[u64]| of[rng.usize(0..of.len())];
        let ttl = pick(rng, &[300, 1_000, 3_000, 20_000]);
        let wiped = rng.bool();
        let steps = rng.u32(0..3);
        Config {
            servers: if rng.u32(0..3) == 0 { 3 } else { 5 },
            processes: rng.usize(1..6),
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
            // A server that forgot its counter relies on the clocks of processes: see `Config::wiped`.
            skew: if wiped { ttl * 1_000 / 2 } else { 60_000_000 },
            push_loss: [0.0, 0.0, 0.3][rng.usize(0..3)],
            breaks: rng.u32(0..6),
            hangs: rng.u32(0..3),
            stops: rng.u32(0..4),
            wiped,
            steps,
            // Whoever comes new cannot know that a clock was set.
            crashes: if steps == 0 { rng.u32(0..3) } else { 0 },
        }
    }

    /// How many servers may be lost.
    pub(super) fn minority(&self) -> usize {
        (self.servers - 1) / 2
    }

    /// Nothing goes wrong but that answers take their time.
    pub(super) fn is_calm(&self) -> bool {
        self.breaks + self.hangs + self.stops + self.steps + self.crashes == 0 && self.push_loss == 0.0
    }
}
