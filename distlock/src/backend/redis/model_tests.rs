//! Compares the scripts on a real server with the model of a server that the memory backend and the simulation use. The
//! same random operations must get the same replies and pushes, and result in the same state.
//!
//! No test here depends on the speed of the server. Data lives for minutes. If it should expire, both sides let it
//! expire between two operations. `FIRST=60 SEEDS=5000 cargo test -p distlock --lib model_tests` runs other seeds and
//! more of them. `SEED=17 …` runs one.

mod sides;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::test_operations::AnyOp;
use crate::backend::{AcquireMode, LockKind, ServerTime, Token, op};
use sides::{CLIENTS, FIRST_FENCE, Sides, token_in};

/// Operations in one run.
const OPERATIONS: usize = 60;

/// The kinds of each key. The number of a token decides which of these kinds it always requests.
const KEYS: [(&str, &[LockKind]); 3] = [
    ("e", &[LockKind::Exclusive]),
    ("s", &[LockKind::Shared, LockKind::Shared, LockKind::Exclusive, LockKind::Shared, LockKind::Shared]),
    (
        "p",
        &[
            LockKind::Limited { max_holders: 2 },
            LockKind::Limited { max_holders: 2 },
            LockKind::Limited { max_holders: 2 },
            LockKind::Limited { max_holders: 2 },
            LockKind::Limited { max_holders: 3 },
            LockKind::Limited { max_holders: 2 },
            LockKind::Exclusive,
            LockKind::Shared,
        ],
    ),
];

/// The next event.
#[derive(Debug)]
pub(super) enum Deed {
    Send {
        client: usize,
        key: &'static str,
        op: AnyOp,
    },
    Replace {
        client: usize,
        key: &'static str,
        op: op::Replace,
    },
    /// One command for several keys.
    Together {
        client: usize,
        batch: Vec<(Arc<str>, op::Acquire)>,
    },
    ForceRelease {
        client: usize,
        key: &'static str,
        /// Only if this one holds it.
        owner: Option<Arc<str>>,
    },
    /// `SET key text NX PX ttl`, by a client of another kind.
    SetPlainly {
        key: &'static str,
        ttl: Duration,
    },
    /// The value of the key expires or is deleted. With `whole`, its members are, too.
    LoseValue {
        key: &'static str,
        whole: bool,
    },
    /// The shortest lease of a shared or limited lock has expired.
    ExpireMember {
        key: &'static str,
    },
    /// One process in the queue has not been heard of for too long …
    ExpireEntry {
        key: &'static str,
        client: Arc<str>,
        token: Token,
    },
    /// … or all of them.
    LoseQueue {
        key: &'static str,
        /// Otherwise the list alone is lost. A release then finds what the model does not have, until the next waiter
        /// asks. So only a test of its own does this.
        entries: bool,
    },
}

fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(0..of.len())].clone()
}

fn seconds(rng: &mut Rng, of: &[u64]) -> Duration {
    Duration::from_secs(pick(rng, of))
}

fn kind_of_token(key: &str, token: Token) -> LockKind {
    let kinds =
        KEYS.iter().find(|(name, _)| *name == key).map_or(&[LockKind::Exclusive][..], |(_, kinds)| kinds);
    kinds[usize::try_from(token.number()).unwrap_or(0) % kinds.len()]
}

/// Mostly a token that means something already, now and then another of the same client.
fn token(rng: &mut Rng, sides: &Sides, key: &str) -> (usize, Token) {
    let known: Vec<(usize, Token)> = sides.texts(key).iter().filter_map(|text| token_in(text)).collect();
    if rng.u32(0..10) < 6 && !known.is_empty() {
        return pick(rng, &known);
    }
    let (client, token) = (rng.usize(0..CLIENTS.len()), Token(rng.u64(1..9)));
    let may_linger = kind_of_token(key, token) == LockKind::Exclusive && rng.bool();
    (client, if may_linger { token.lingering(Duration::from_millis(50)) } else { token })
}

fn enter(rng: &mut Rng, key: &str, token: Token) -> op::Acquire {
    let kind = kind_of_token(key, token);
    let (ttl, claim) = (seconds(rng, &[60, 120, 300]), seconds(rng, &[40, 90]));
    let modes = [
        AcquireMode::Try,
        AcquireMode::Wait,
        AcquireMode::Wait,
        AcquireMode::Poll,
        AcquireMode::WaitAgain,
        AcquireMode::PollAgain,
    ];
    let mode = pick(rng, &modes);
    let fences = if kind == LockKind::Exclusive { pick(rng, &[0, 0, 1, 5]) } else { 0 };
    op::Acquire { token, kind, ttl, claim, mode, fences }
}

fn operation(rng: &mut Rng, key: &str, token: Token, now: ServerTime) -> AnyOp {
    match rng.u32(0..20) {
        0..9 => enter(rng, key, token).into(),
        9..15 => {
            let keep_taken_for = (rng.u32(0..6) == 0).then(|| seconds(rng, &[50, 200]));
            // Begun just now, in the future (no gap is due, whenever the command arrives), or so long ago that one is.
            let handoffs_began = pick(rng, &[None, Some(now.0 + 60_000_000), Some(now.0 - 60_000_000)]);
            let ends = pick(rng, &[op::Ends::ExclusiveLease, op::Ends::Other]);
            op::Release { token, keep_taken_for, handoffs_began: handoffs_began.map(ServerTime), ends }.into()
        }
        15..18 => {
            let ttl = Duration::from_millis(pick(rng, &[1, 60_000, 120_000, 300_000]));
            op::Renew { token, kind: kind_of_token(key, token), ttl, last: false }.into()
        }
        18 if kind_of_token(key, token) == LockKind::Exclusive => {
            op::TryAcquire { token, ttl: seconds(rng, &[60, 120, 300]) }.into()
        }
        18 => enter(rng, key, token).into(),
        _ => {
            let first = FIRST_FENCE + rng.u64(0..3_000);
            AnyOp::Fence(op::Fence { token, first, count: rng.u32(1..9) })
        }
    }
}

/// Exclusive or shared locks, in the order of the keys.
fn together(rng: &mut Rng) -> Vec<(Arc<str>, op::Acquire)> {
    let kind = pick(rng, &[LockKind::Exclusive, LockKind::Shared]);
    let ttl = seconds(rng, &[60, 120]);
    let one = |(key, number): (&str, u64)| {
        let (token, claim) = (Token(number), Duration::from_secs(40));
        (Arc::from(key), op::Acquire { token, kind, ttl, claim, mode: AcquireMode::Try, fences: 0 })
    };
    // The tokens that request this kind, for any key.
    let number = 5 * rng.u64(1..3) + if kind == LockKind::Exclusive { 2 } else { 0 };
    let keys = if kind == LockKind::Exclusive {
        [("e", number), ("s", number)]
    } else {
        [("s", number), ("t", number)]
    };
    keys.into_iter().map(one).collect()
}

fn draw(rng: &mut Rng, sides: &mut Sides) -> Deed {
    let key = pick(rng, &KEYS).0;
    let now = sides.now();
    let (client, token) = token(rng, sides, key);
    let texts = sides.texts(key);
    let text = if texts.is_empty() { String::new() } else { pick(rng, &texts) };
    match rng.u32(0..40) {
        0 => Deed::ForceRelease { client, key, owner: None },
        10..12 => Deed::ForceRelease { client, key, owner: Some(text.into()) },
        1 => Deed::SetPlainly { key, ttl: seconds(rng, &[60, 120]) },
        2 => Deed::LoseValue { key, whole: rng.bool() },
        3..5 => Deed::ExpireMember { key },
        5..7 if token_in(&text).is_some() => {
            let (client, token) = token_in(&text).unwrap_or((client, token));
            Deed::ExpireEntry { key, client: CLIENTS[client].into(), token }
        }
        7 => Deed::LoseQueue { key, entries: true },
        8..10 => Deed::Together { client, batch: together(rng) },
        12..14 if kind_of_token(key, token) == LockKind::Exclusive => {
            let (ttl, fences) = (seconds(rng, &[60, 120, 300]), rng.u32(0..4));
            Deed::Replace { client, key, op: op::Replace { token, ttl, fences, holder: text.into() } }
        }
        _ => Deed::Send { client, key, op: operation(rng, key, token, now) },
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_real_server_and_the_model_of_one_do_the_same() {
    let mut sides = Sides::start();
    let first = number("FIRST").unwrap_or(0);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("SEEDS").unwrap_or(60),
    };
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        sides.begin(seed);
        for _ in 0..OPERATIONS {
            let deed = draw(&mut rng, &mut sides);
            sides.both(deed);
        }
        sides.end();
    }
}

fn enter_for_long(number: u64, mode: AcquireMode) -> op::Acquire {
    let (token, ttl) = (Token(number), Duration::from_secs(60));
    op::Acquire { token, kind: kind_of_token("s", token), ttl, claim: ttl, mode, fences: 0 }
}

fn leave_for(number: u64, keep_taken_for: Option<Duration>) -> op::Release {
    op::Release { token: Token(number), keep_taken_for, handoffs_began: None, ends: op::Ends::Other }
}

/// A late command may grant the lock to a token that was released with a `keep_taken_for` before.
#[test]
fn a_token_that_leaves_twice_with_a_hold_is_one_holder() {
    let mut sides = Sides::start();
    sides.begin(0);
    for keep_taken_for in [200, 50] {
        let leave = leave_for(5, Some(Duration::from_secs(keep_taken_for)));
        for op in [enter_for_long(5, AcquireMode::Try).into(), leave.into()] {
            sides.both(Deed::Send { client: 0, key: "s", op });
        }
        assert_eq!(sides.texts("s"), ["dl1:hold:dl1:a:5"]);
    }
    sides.end();
}

#[test]
fn of_holders_whose_leases_end_together_both_sides_name_the_same() {
    let mut sides = Sides::start();
    sides.begin(0);
    let deeds = [
        (0, AnyOp::from(enter_for_long(2, AcquireMode::Try))),
        (1, enter_for_long(3, AcquireMode::Wait).into()),
        (2, enter_for_long(1, AcquireMode::Wait).into()),
        (0, enter_for_long(4, AcquireMode::Wait).into()),
        // Three readers acquire the lock at one instant. A writer waits for the last of them.
        (0, leave_for(2, None).into()),
        (0, enter_for_long(7, AcquireMode::Wait).into()),
    ];
    for (client, op) in deeds {
        sides.both(Deed::Send { client, key: "s", op });
    }
    sides.end();
}

/// Its last heartbeat was so long ago that it would have been skipped.
#[test]
fn who_asks_again_while_all_places_are_taken_keeps_its_own_in_the_queue() {
    let mut sides = Sides::start();
    sides.begin(0);
    let ttl = Duration::from_secs(60);
    let ask = |client, number| {
        let (token, kind, mode) = (Token(number), LockKind::Limited { max_holders: 2 }, AcquireMode::Wait);
        Deed::Send {
            client,
            key: "p",
            op: op::Acquire { token, kind, ttl, claim: ttl, mode, fences: 0 }.into(),
        }
    };
    for (client, number) in [(0, 1), (1, 2), (0, 3), (2, 8)] {
        sides.both(ask(client, number));
    }
    sides.both(Deed::ExpireEntry { key: "p", client: CLIENTS[0].into(), token: Token(3) });
    sides.both(ask(0, 3));
    assert_eq!(sides.texts("p")[2..], ["dl1:a:3", "dl1:c:8"]);
    sides.end();
}

/// A command that arrives late does not know that it is queued, so its entry stays when it acquires the lock.
#[test]
fn a_holder_that_is_queued_as_well_keeps_its_longer_lease() {
    let mut sides = Sides::start();
    sides.begin(0);
    let ttl = Duration::from_secs(600);
    let late = op::Acquire { ttl, ..enter_for_long(1, AcquireMode::Wait) };
    let send = |client, op| Deed::Send { client, key: "s", op };
    sides.both(send(0, enter_for_long(2, AcquireMode::Try).into()));
    sides.both(send(1, enter_for_long(1, AcquireMode::Wait).into()));
    sides.both(Deed::LoseValue { key: "s", whole: true });
    sides.both(send(2, enter_for_long(3, AcquireMode::Try).into()));
    sides.both(send(1, late.into()));
    // It serves the queue, with the shorter claim of the entry.
    sides.both(send(2, leave_for(3, None).into()));
    assert_eq!(sides.texts("s"), ["dl1:b:1"]);
    assert!(sides.run::<u64>(&["PTTL", "s"]) > 300_000);
    sides.end();
}

/// Redis may evict the list and keep the entries.
#[test]
fn a_queue_whose_list_is_lost_is_made_anew_by_all_who_wait() {
    let mut sides = Sides::start();
    sides.begin(0);
    let ttl = Duration::from_secs(60);
    let ask = |number: usize, mode| {
        let (token, kind) = (Token(number as u64), LockKind::Exclusive);
        let op = op::Acquire { token, kind, ttl, claim: ttl, mode, fences: 0 };
        Deed::Send { client: number % 3, key: "e", op: op.into() }
    };
    sides.both(ask(1, AcquireMode::Try));
    // The first that asks then is one of those who wait, or a new one.
    for first in [2, 5] {
        for number in [2, 3, 4] {
            sides.both(ask(number, AcquireMode::Wait));
        }
        sides.both(Deed::LoseQueue { key: "e", entries: false });
        for number in [first, 3, 4, 2, first, 3] {
            sides.both(ask(number, AcquireMode::WaitAgain));
        }
    }
    assert_eq!(sides.texts("e")[1..], ["dl1:c:5", "dl1:a:3", "dl1:b:4", "dl1:c:2"]);
    sides.end();
}
