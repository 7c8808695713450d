//! The contract between the engine and whatever keeps the locks.
//!
//! An operation is idempotent by its owner token, with two exceptions that the engine knows: [`Op::TryAcquire`] is
//! never sent twice, and a repeated [`Op::Release`] may answer [`Reply::NotHeld`]. Replies to operations sent
//! one after the other on an unbroken link are *executed* in the order sent; they may be *noticed* in another
//! order, because different tasks await them.
//!
//! Keys are logical here: the backend puts the prefix in front and takes it off again.

pub(crate) mod fail_all;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod quorum;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Owner token of one lease or of one attempt at it, unique within the client. On the wire: `dl1:<client>:<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u64);

/// A command of a broken connection is applied within this time or not at all.
pub(crate) const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// What every token and every auxiliary name of ours begins with.
pub(crate) const MARK: &str = "dl1:";

/// The token's text in the lock's key.
pub(crate) fn token_text(client: &str, token: Token) -> String {
    format!("{MARK}{client}:{}", token.0)
}

/// The number of a token of `client`, or nothing for somebody else's.
#[cfg(feature = "redis")]
pub(crate) fn parse_token(client: &str, text: &str) -> Option<Token> {
    let number = text.strip_prefix(MARK)?.strip_prefix(client)?.strip_prefix(':')?;
    number.parse().ok().map(Token)
}

/// Microseconds of the server's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerTime(pub(crate) u64);

/// Whose wall clocks the times in replies are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// One server's: times that contradict each other show that the clock was stepped.
    One,
    /// Those of several servers, each with its own share of the keys: times for different keys must not be
    /// compared.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory is one place"))]
    Many,
}

/// How the queue on the server behaves; the same for every client of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// How long an entry in the queue lives without a heartbeat.
    pub(crate) queue_entry_ttl: Duration,
    /// Length of the gap in which a key under contention is left free for plain pollers; zero = no gaps.
    pub(crate) poll_gap: Duration,
    /// How often such a gap is made, on average; see [`Tuning::poll_gap_is_due`]. Zero (and a gap that is not): one of
    /// several servers, where no gap is made, waiters that poll are passed over, and whoever releases is told if the
    /// lock was handed on.
    pub(crate) poll_gap_interval: Duration,
    pub(crate) clocks: Clocks,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            queue_entry_ttl: Duration::from_secs(10),
            poll_gap: Duration::from_millis(10),
            // Costs a key that is busy all the time 4 % of its sections; at 100 ms it was 10 %, at 1 s 1 %, and a
            // client that polls every 100 ms is served within 2 s, 1 s and 10 s.
            poll_gap_interval: Duration::from_millis(200),
            clocks: Clocks::One,
        }
    }
}

/// The golden section.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Tuning {
    /// Whether a run of hand-offs that began at `handoffs_began` is to be interrupted by a gap now; both in
    /// microseconds of one clock. The scripts say the same (see scripts/serve.lua).
    ///
    /// A client that polls gets the key if one of its polls falls into a gap. So gaps have no rhythm: at any regular
    /// distance they would always miss a client that polls at a related interval. There is one in each
    /// `poll_gap_interval` of the clock, at a place that is as good as random, but the same for every process and
    /// script.
    pub(crate) fn poll_gap_is_due(&self, handoffs_began: u64, now: u64) -> bool {
        if self.poll_gap.is_zero() || self.poll_gap_interval.is_zero() {
            return !self.poll_gap.is_zero();
        }
        let (poll_gap_interval, now) = (self.poll_gap_interval.as_micros() as f64, now as f64);
        let place = |number: f64| (number * GOLDEN * (1.0 + number / 1000.0)).fract();
        let at = |number: f64| (number + place(number % 65_536.0)) * poll_gap_interval;
        let number = (now / poll_gap_interval).floor();
        let latest = if at(number) > now { at(number - 1.0) } else { at(number) };
        (handoffs_began as f64) < latest
    }
}

/// What kind of lock is asked for. Exclusive and shared ones exclude each other; a limited one shares its key
/// with nothing but itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// At most so many holders.
    Limited(u32),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Exclusive => f.write_str("an exclusive lock"),
            Kind::Shared => f.write_str("a shared lock"),
            Kind::Limited(n) => write!(f, "a lock of at most {n} holders"),
        }
    }
}

/// What stands in the key of a lock that is held by readers.
pub(crate) const SHARED_MARKER: &str = "dl1:s";
/// What the key of a limited lock begins with; its limit follows.
pub(crate) const LIMITED_MARKER: &str = "dl1:p:";

/// The kind of lock that the value of its key stands for.
pub(crate) fn kind_of(holder: &str) -> Kind {
    if holder == SHARED_MARKER {
        return Kind::Shared;
    }
    let limit = holder.strip_prefix(LIMITED_MARKER).and_then(|limit| limit.parse().ok());
    limit.map_or(Kind::Exclusive, Kind::Limited)
}

/// What `enter` does when somebody else holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// Nothing.
    Try,
    /// Queue; the grant is pushed.
    Wait,
    /// Queue; nobody listens for pushes, the waiter asks again by itself.
    Poll,
    /// [`AcquireMode::Wait`], and the token may be queued already.
    WaitAgain,
    /// [`AcquireMode::Poll`], and the token may be queued already.
    PollAgain,
}

/// One operation on one key. Durations are whole milliseconds, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Takes a free lock and nothing else: the cheapest command there is. A backend may carry it out as
    /// `Acquire` with [`AcquireMode::Try`]. Replies: `Acquired`, `AlreadyHeld`, `Busy`, `WrongKind`.
    TryAcquire { token: Token, ttl: Duration },
    /// Acquire, queue, heartbeat or claim. `claim` is for how long a grant made to this entry lives,
    /// `fences` how many fencing tokens to reserve (0: unfenced). Replies as for `TryAcquire`.
    Acquire { token: Token, kind: Kind, ttl: Duration, claim: Duration, mode: AcquireMode, fences: u32 },
    /// Release and hand on; or leave the queue; or undo whatever an earlier command of this token may have
    /// done. With `keep_taken_for` the key stays taken (by no token) that much longer. `handoffs_began` is when the
    /// current run of hand-offs began, 0 if unknown. Replies: `Released`, `Cancelled`, `NotHeld`.
    Release { token: Token, keep_taken_for: Option<Duration>, handoffs_began: ServerTime },
    /// Sets the lease to `ttl` from now unless it is longer already. Never creates. Replies: `Renewed`,
    /// `NotHeld`.
    Renew { token: Token, kind: Kind, ttl: Duration },
    /// Raises the server's counter of fencing tokens to the last of `count` tokens that begin with `first`, if
    /// the lock is ours; for backends of several servers, which agree on tokens by it. Replies: `Fenced`,
    /// `NotHeld`.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory is one server"))]
    Fence { token: Token, first: u64, count: u32 },
}

#[cfg(feature = "redis")]
impl Op {
    pub(crate) fn token(&self) -> Token {
        match *self {
            Op::TryAcquire { token, .. }
            | Op::Acquire { token, .. }
            | Op::Release { token, .. }
            | Op::Renew { token, .. }
            | Op::Fence { token, .. } => token,
        }
    }
}

/// The time to live of a key that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// The reply did not say.
    Unknown,
    /// The key never expires: not one of ours, or somebody's mistake.
    Forever,
    For(Duration),
}

/// What the server said. Every variant has been checked to belong to the operation's own token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The lock was free and is ours. `fence` is the first of the reserved tokens.
    Acquired {
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    },
    /// The lock was ours already, and its lease is at least the ttl sent.
    AlreadyHeld {
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    },
    /// Somebody else holds it. `front`: our entry is the first in the queue.
    Busy {
        server_time: Option<ServerTime>,
        holder: Arc<str>,
        remaining: Remaining,
        front: bool,
    },
    /// The key holds something that is not a lock of this kind.
    WrongKind {
        found: Arc<str>,
    },
    /// The lock was ours and is not any more. `gap`: it was left free for plain pollers; or, on one of several
    /// servers, it was handed on to a waiter.
    Released {
        gap: bool,
    },
    /// The lock was not ours, but the queue entry was; it is gone.
    Cancelled,
    /// Neither the lock nor a queue entry was ours.
    NotHeld,
    Renewed {
        server_time: ServerTime,
    },
    /// The highest fencing token that the server knew of before; 0: of none.
    Fenced {
        last: u64,
    },
    /// Nothing was done: the command ended at a key before this one (see [`Backend::send_acquire_all`]).
    Skipped,
}

impl Reply {
    /// An operation that wanted the lock has it.
    pub(crate) fn is_acquired(&self) -> bool {
        matches!(self, Reply::Acquired { .. } | Reply::AlreadyHeld { .. })
    }

    /// Somebody holds the lock, and the reply does not say who.
    #[cfg(feature = "redis")]
    pub(crate) fn names_a_marker(&self) -> bool {
        matches!(self, Reply::Busy { holder, .. } if kind_of(holder) != Kind::Exclusive)
    }
}

/// Why there is no reply.
#[derive(Clone, Debug)]
pub(crate) struct OpError {
    pub(crate) kind: Failure,
    pub(crate) source: Arc<dyn Error + Send + Sync>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no link: the command never left this process.
    NotSent,
    /// The link broke, the answer did not come, or the server or a proxy in front of it gave an error of which
    /// nothing is known: the command may have been applied, or may still be. Worth another try.
    Unknown,
    /// The server refused for now and did nothing (loading, busy with a script, cluster down, read-only until
    /// the master is found, out of memory, too few replicas, disk full): worth another try, for as long as
    /// there is something to be gained. A release is repeated until nothing can be left of its lease.
    Later,
    /// The server refused and will refuse again (no permission, wrong password, unknown command, a key of
    /// another type). A script that does several things may have done some of them.
    Refused,
}

impl OpError {
    pub(crate) fn new(kind: Failure, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        OpError { kind, source: Arc::from(source.into()) }
    }

    /// Whether the command may have been carried out, or a part of it, or may still be.
    pub(crate) fn may_be_applied(&self) -> bool {
        match self.kind {
            Failure::Unknown => true,
            Failure::Refused => !mutated!(RefusalIsNothingDone),
            Failure::NotSent | Failure::Later => false,
        }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

pub(crate) type OpResult = Result<Reply, OpError>;
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An operation under way. Its place in the order of execution is fixed at the first poll of `Pending`.
/// The future needs no particular executor, and is never dropped before it is ready: whoever does not want
/// to wait hands it to the I/O thread. It always becomes ready: when the link is given up it fails with
/// [`Failure::Unknown`].
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory never fails, and answers at once"))]
pub(crate) enum Sending {
    Ready(OpResult),
    Pending(BoxFuture<OpResult>),
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sending::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Sending::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Whether grants reach us without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushes {
    /// Subscribed, on an unbroken connection.
    On,
    Off,
}

/// What happens to the connection. Every event ends the validity of what was known before it.
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory never fails, and answers at once"))]
#[derive(Clone, Debug)]
pub(crate) enum LinkEvent {
    /// A new link is ready for commands. `former_links_dead`: nothing that was sent on an earlier link can be applied
    /// any more (it was killed on the server, or there was none).
    Up { former_links_dead: bool, pushes: Pushes },
    /// There is no link. Also reported after each attempt to connect that failed.
    Down { cause: OpError },
    /// The push connection was lost, or found again. (Lost pushes may have been missed in between.)
    Pushes(Pushes),
}

/// News from the server that nobody asked for. Hints: they may be late, doubled, or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// At `server_time` the lock was given to `token` for its claim time. `handoffs_began`: see [`Op::Release`].
    Grant {
        key: Arc<str>,
        token: Token,
        server_time: ServerTime,
        handoffs_began: ServerTime,
        fence: Option<u64>,
    },
    /// The lock is left free for plain pollers; `token` is still first in the queue and may ask again after
    /// the gap.
    Gap { key: Arc<str>, token: Token },
}

/// Receives what the backend reports. Called on the I/O thread, or (memory) on the thread whose operation
/// caused it; never while a lock of the backend is held.
pub(crate) trait Events: Send + Sync {
    fn link(&self, event: LinkEvent);
    fn push(&self, push: Push);
}

/// What the server knows about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) kind: Kind,
    /// Of several, the one whose lease lasts longest; the marker, if none of them is known.
    pub(crate) holder: Arc<str>,
    /// Of a shared or limited lock, with their leases, the longest first.
    pub(crate) holders: Vec<(Arc<str>, Duration)>,
    /// Of the longest lease. `None`: the key never expires.
    pub(crate) remaining: Option<Duration>,
    /// Processes queued on the server.
    pub(crate) waiters: u64,
}

/// Something that keeps locks.
pub(crate) trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Starts one operation. Must be cheap: it is called on the caller's thread. If there is no link the
    /// answer is `Ready(Err(NotSent))` at once, and an idle backend begins to connect.
    fn send(&self, key: &Arc<str>, op: Op) -> Sending;

    /// Carries out many operations in one round trip where it can; one result for each, in order.
    fn send_batch(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>>;

    /// How many of these keys, from the first on, [`Backend::send_acquire_all`] can put into one command: at least
    /// one. One means that they are acquired one by one.
    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len().min(1)
    }

    /// Carries out operations `Acquire` with [`AcquireMode::Try`], unfenced, as one command: in order, up to and
    /// including the first that does not get its lock. Those behind it are [`Reply::Skipped`]. One result
    /// for each. Whatever else is said of [`Backend::send`] holds for the whole; what was [`Failure::Refused`] may
    /// have been carried out in part. Called only for as many keys as [`Backend::together`] allows.
    fn send_acquire_all(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>> {
        Box::pin(std::future::ready(batch.iter().map(|_| Ok(Reply::Skipped)).collect()))
    }

    /// Reads who holds `key`. `None`: it is free. A key of another type is `Refused`.
    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<Inspection>, OpError>>;

    /// Deletes the lock whoever holds it, and hands on to the queue. Returns whether there was one.
    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, OpError>>;

    /// Whether [`Backend::run`] needs a runtime with I/O.
    fn uses_sockets(&self) -> bool {
        true
    }

    /// Keeps the link alive, for ever, reporting to `events`. Polled on the I/O thread within a tokio
    /// runtime (time enabled, and I/O where [`Backend::uses_sockets`]); dropped when the manager ends. After a
    /// panic it is called again: what the links of the first call have sent may still be applied then. If it
    /// returns, the manager is of no use any more.
    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()>;

    /// Why it cannot keep locks of this kind, if it cannot.
    fn refuses(&self, _kind: Kind) -> Option<&'static str> {
        None
    }

    /// For messages: what this is and where, without credentials.
    fn describe(&self) -> String;

    /// What stands in front of every key on the server.
    fn prefix(&self) -> &str;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000;
    /// What other languages' clients wait before they give up.
    const TIME_OUT: u64 = 10_000 * MILLI;
    /// Some day of 2026.
    const START: u64 = 1_795_000_000_000_000;

    /// When a client that polls with this interval, from `phase` on, first falls into a gap of a key that is
    /// released every millisecond.
    fn wait(tuning: &Tuning, interval: u64, phase: u64) -> u64 {
        let gap = u64::try_from(tuning.poll_gap.as_micros()).unwrap();
        let (mut handoffs_began, mut now, mut poll) = (START + phase, START + phase, START + phase);
        loop {
            now += MILLI;
            if tuning.poll_gap_is_due(handoffs_began, now) {
                while poll < now {
                    poll += interval;
                }
                if poll < now + gap {
                    return poll - START - phase;
                }
                now += gap;
                handoffs_began = now;
            }
        }
    }

    #[test]
    fn whoever_polls_gets_a_gap_about_as_soon_as_chance_would_have_it_whatever_the_interval() {
        let tuning = Tuning::default();
        for interval in [50, 70, 75, 99, 100, 101, 120, 150, 160, 200, 249, 250] {
            // A poll takes a moment, too.
            let interval = interval * MILLI + 200;
            let mut waits: Vec<_> = (0..200)
                .map(|step| wait(&tuning, interval, step * 1_234_567 + step * interval / 200))
                .collect();
            waits.sort_unstable();
            let (median, nearly_all, in_time) =
                (waits[100], waits[190], waits.partition_point(|w| *w < TIME_OUT));
            // Each gap meets a poll with the probability gap ÷ interval. A few may be unlucky, for no rhythm is
            // the right one for all.
            let expected = interval * 20;
            assert!(median < expected, "{interval} us: {median} us");
            assert!(nearly_all < expected * 4, "{interval} us: {nearly_all} us");
            let least = if interval < 110 * MILLI { 196 } else { 160 };
            assert!(in_time >= least, "{interval} us: {in_time} of 200 within 10 s");
        }
    }

    #[test]
    fn gaps_are_a_small_share_of_the_time_and_none_comes_at_once() {
        let tuning = Tuning::default();
        let (mut handoffs_began, mut gaps) = (START, 0);
        for now in (START..START + 60_000 * MILLI).step_by(1_000) {
            if tuning.poll_gap_is_due(handoffs_began, now) {
                (handoffs_began, gaps) = (now, gaps + 1);
            }
        }
        assert!((285..=300).contains(&gaps), "{gaps}");
        assert!(!tuning.poll_gap_is_due(START, START));
        let none = Tuning { poll_gap: Duration::ZERO, ..tuning.clone() };
        assert!(!none.poll_gap_is_due(0, START));
        let always = Tuning { poll_gap_interval: Duration::ZERO, ..tuning };
        assert!(always.poll_gap_is_due(START, START));
    }
}
