//! How far the model is explored, and which rule is broken.

use crate::{rules::Rule, server::Tick};

/// The lease time, and what `extend` asks for.
pub const TTL: Tick = 3;
pub const LONG_TTL: Tick = 5;
/// A grant lives for so long until its receiver has renewed it.
pub const CLAIM: Tick = 2;
/// A waiter asks this often, which is more often than a claim lasts.
pub const HEARTBEAT: Tick = 1;
/// A place in the queue lives for so long after its last heartbeat.
pub const KEEP: Tick = 3;
/// A command without an answer is sent again after so long.
pub const ASK_AGAIN: Tick = 2;
/// What an old connection still carries arrives within this time after it broke, or never.
pub const SETTLING: Tick = 2;
/// How long `min_hold` keeps others out.
pub const MIN_HOLD: Tick = 1;

/// Whether a new connection may kill its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKill {
    Permitted,
    Forbidden,
}

/// The faults that may happen on one path, at most so many of each, at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Messages that are overtaken by other events, for as long as it takes; those behind them on a connection wait.
    pub slow: u8,
    /// Broken connections: commands arrive late or never, replies never.
    pub breaks: u8,
    pub lost_pushes: u8,
    pub doubled_pushes: u8,
    /// Processes that end without a word.
    pub crashes: u8,
}

/// Who crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Crashes {
    /// Anybody, at any time.
    OfAnybody,
    /// Who waits, before any time has passed.
    OfWaitersAtFirst,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// How often each process wants the lock, one after the other.
    pub processes: Vec<u8>,
    /// Further tasks of the first process that want the lock at the same time.
    pub locals: u8,
    pub last_tick: Tick,
    pub faults: Faults,
    pub crashes: Crashes,
    /// How many waiters give up.
    pub cancels: u8,
    /// How many leases are extended on request.
    pub extensions: u8,
    /// How many releases leave a gap.
    pub gaps: u8,
    /// How often a plain client takes the free lock.
    pub plain: u8,
    /// The first process asks for `min_hold`.
    pub min_hold: Tick,
    pub client_kill: ClientKill,
    /// A process that has held the lock for so long releases it.
    pub longest_hold: Tick,
    /// Nobody waits longer than this.
    pub longest_wait: Tick,
    pub broken: Option<Rule>,
}

impl Bounds {
    /// Nothing fails; each process wants the lock once.
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
