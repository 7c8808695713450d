//! The limits of the exploration, and the rule that is broken.

use crate::{rules::Rule, server::Tick};

/// The ttl of leases and of `extend`.
pub const TTL: Tick = 3;
pub const LONG_TTL: Tick = 5;
/// How long a grant lives that its receiver has not renewed.
pub const CLAIM: Tick = 2;
/// How often a waiter asks, which is more often than a claim lasts.
pub const HEARTBEAT: Tick = 1;
/// How long a place in the queue lives after its last heartbeat.
pub const KEEP: Tick = 3;
/// After this time, a command without a reply is sent again.
pub const ASK_AGAIN: Tick = 2;
/// Commands of an old connection arrive within this time after it broke, or never.
pub const SETTLING: Tick = 2;
/// How long `min_hold` excludes others.
pub const MIN_HOLD: Tick = 1;

/// Whether a new connection may kill its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKill {
    Permitted,
    Forbidden,
}

/// The maximum number of each fault on one path. Faults may happen at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Messages that other events overtake, for any time. Later messages of the same connection wait.
    pub slow: u8,
    /// Broken connections. Their commands arrive late or never, and their replies never.
    pub breaks: u8,
    pub lost_pushes: u8,
    pub doubled_pushes: u8,
    /// Processes that crash.
    pub crashes: u8,
}

/// The processes that may crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crashes {
    /// Any process, at any time.
    OfAnybody,
    /// Waiters, before any time has passed.
    OfWaitersAtFirst,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How often each process requests the lock, one after the other.
    pub processes: Vec<u8>,
    /// Further tasks of the first process that request the lock at the same time.
    pub locals: u8,
    pub last_tick: Tick,
    pub faults: Faults,
    pub crashes: Crashes,
    /// How many waiters cancel.
    pub cancels: u8,
    /// How many leases are extended on request.
    pub extensions: u8,
    /// How many releases leave a gap.
    pub gaps: u8,
    /// How often a plain client takes the free lock.
    pub plain: u8,
    /// The `min_hold` of the first process.
    pub min_hold: Tick,
    pub client_kill: ClientKill,
    /// A process releases the lock after it has held it for this long.
    pub longest_hold: Tick,
    /// No process may wait longer than this.
    pub longest_wait: Tick,
    pub broken: Option<Rule>,
}

impl Bounds {
    /// No faults, and each process requests the lock once.
    pub fn calm(processes: usize, last_tick: Tick) -> Self {
        Bounds {
            processes: vec![1; processes],
            locals: 0,
            last_tick,
            faults: Faults::default(),
            crashes: Crashes::OfAnybody,
            cancels: 0,
            extensions: 0,
            gaps: 0,
            plain: 0,
            min_hold: 0,
            client_kill: ClientKill::Permitted,
            longest_hold: Tick::MAX,
            longest_wait: Tick::MAX,
            broken: None,
        }
    }

    /// The same world without a rule.
    pub fn without(&self, rule: Rule) -> Self {
        Bounds { broken: Some(rule), ..self.clone() }
    }

    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }
}
