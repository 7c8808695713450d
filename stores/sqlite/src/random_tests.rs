//! Random operations at simulated times. The statements must agree with a model that keeps all leases.

use std::time::Duration;

use fastrand::Rng;
use rusqlite::Connection;

use super::file::{TABLES, TransactionTime};
use super::leases;
use distlock_store::engine::Who;
use distlock_store::{Acquire, AcquireReply, KEPT, List, LockKind, Owner, Release, Renew};

const KEYS: [&str; 3] = ["a", "ab", "b\u{0}\u{ff}"];
const KINDS: [LockKind; 4] = [
    LockKind::Exclusive,
    LockKind::Shared,
    LockKind::Limited { max_holders: 2 },
    LockKind::Limited { max_holders: 3 },
];

#[derive(Clone, Debug)]
struct Lease {
    key: &'static str,
    owner: String,
    kind: LockKind,
    boot: String,
    ends: i64,
}

/// Whether a lock of one kind is granted while this many holders have the other kind.
fn goes_with(wanted: LockKind, held: LockKind, holders: usize) -> bool {
    wanted == held
        && match held {
            LockKind::Shared => true,
            LockKind::Limited { max_holders } => holders < max_holders as usize,
            _ => false,
        }
}

/// A semaphore is compatible only with itself.
fn is_wrong(wanted: LockKind, held: LockKind) -> bool {
    let is_limited = |kind| matches!(kind, LockKind::Limited { .. });
    wanted != held && (is_limited(wanted) || is_limited(held))
}

struct World {
    rng: Rng,
    db: Connection,
    boot: u32,
    now: i64,
    /// All leases that were not released.
    leases: Vec<Lease>,
    last_token: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(TABLES).unwrap();
        World { rng: Rng::with_seed(seed), db, boot: 0, now: 1_000, leases: Vec::new(), last_token: 0 }
    }

    fn boot(&self) -> String {
        format!("boot {}", self.boot)
    }

    fn time(&mut self) -> Duration {
        Duration::from_micros(self.rng.u64(1..20))
    }

    /// The leases of `key` that have not expired.
    fn lasting(&self, key: &str) -> Vec<Lease> {
        let lasts = |lease: &&Lease| lease.key == key && lease.boot == self.boot() && lease.ends > self.now;
        self.leases.iter().filter(lasts).cloned().collect()
    }

    fn of(&mut self, key: &str, owner: &str) -> Option<&mut Lease> {
        let (boot, now) = (self.boot(), self.now);
        self.leases
            .iter_mut()
            .find(|lease| lease.key == key && lease.owner == owner && lease.boot == boot && lease.ends > now)
    }

    fn step(&mut self) {
        self.now += self.rng.i64(0..6);
        if self.rng.u32(0..60) == 0 {
            (self.boot, self.now) = (self.boot + 1, self.rng.i64(0..2_000));
        }
        let (boot, now) = (self.boot(), self.now);
        let at = TransactionTime { boot: &boot, now };
        let key = KEYS[self.rng.usize(0..KEYS.len())];
        let owner = Owner::new("one", self.rng.u64(0..5));
        let time = self.time();
        let ends = now + i64::try_from(time.as_micros()).unwrap();
        match self.rng.u32(0..10) {
            0..5 => self.acquire(&at, key, &owner, time),
            5 | 6 => {
                let found = leases::renew(&self.db, &at, &Renew::new(key, &owner, time)).unwrap();
                let lease = self.of(key, owner.as_str());
                assert_eq!(found, lease.is_some());
                if let Some(lease) = lease {
                    lease.ends = lease.ends.max(ends);
                }
            }
            7 | 8 => {
                let mut request = Release::new(key, &owner);
                request.keep = self.rng.bool().then_some(time);
                let found = leases::release(&self.db, &at, &request).unwrap();
                let lease = self.of(key, owner.as_str());
                assert_eq!(found, lease.is_some());
                if let Some(lease) = lease {
                    (lease.owner, lease.ends) = (KEPT.to_owned(), request.keep.map_or(now, |_| ends));
                }
            }
            _ if self.rng.bool() => {
                let found = leases::force_release(&self.db, &at, key).unwrap();
                assert_eq!(found, !self.lasting(key).is_empty());
                self.leases.retain(|lease| lease.key != key);
            }
            _ => drop(leases::prune(&self.db, &at).unwrap()),
        }
        self.compare(&at);
    }

    fn acquire(&mut self, at: &TransactionTime<'_>, key: &'static str, owner: &Owner, ttl: Duration) {
        let kind = KINDS[self.rng.usize(0..KINDS.len())];
        let mut request = Acquire::new(key, owner, ttl);
        (request.kind, request.fences) = (kind, self.rng.u32(0..3));
        let looked = leases::refusal(&self.db, at, &request).unwrap();
        let reply = leases::acquire(&self.db, at, &request, &Who::this_process()).unwrap();
        let (before, ends) = (self.lasting(key), at.now + i64::try_from(ttl.as_micros()).unwrap());
        if let Some(lease) = self.of(key, owner.as_str()) {
            lease.ends = lease.ends.max(ends);
            assert!(matches!(reply, AcquireReply::AlreadyHeld { .. }), "{reply:?}");
        } else {
            let held = before.first().map(|lease| lease.kind);
            match &reply {
                AcquireReply::Acquired { .. } => {
                    assert!(held.is_none_or(|held| goes_with(kind, held, before.len())), "{before:?}");
                    let (owner, boot) = (owner.as_str().to_owned(), at.boot.to_owned());
                    self.leases.push(Lease { key, owner, kind, boot, ends });
                }
                AcquireReply::WrongKind { found } => {
                    assert!(held == Some(*found) && is_wrong(kind, *found), "{before:?}");
                }
                busy => {
                    assert!(matches!(busy, AcquireReply::Busy(_)), "{busy:?}");
                    let held = held.unwrap();
                    assert!(!goes_with(kind, held, before.len()) && !is_wrong(kind, held), "{before:?}");
                }
            }
        }
        match &reply {
            AcquireReply::Acquired { fence } | AcquireReply::AlreadyHeld { fence } => {
                assert_eq!((fence.is_some(), &looked), (request.fences > 0, &None));
                if let Some(first) = fence {
                    assert!(*first > self.last_token);
                    self.last_token = first + u64::from(request.fences) - 1;
                }
            }
            refused => assert_eq!(looked.as_ref(), Some(refused)),
        }
    }

    /// A list shows, page by page, the leases that have not expired.
    fn compare(&self, at: &TransactionTime<'_>) {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = leases::list(&self.db, at, &List::new("", after, 1)).unwrap();
            for (key, lock) in &page.locks {
                let holders = lock.holders.iter().map(|(holder, left)| {
                    (key.clone(), holder.clone(), at.now + i64::try_from(left.unwrap().as_micros()).unwrap())
                });
                found.extend(holders);
            }
            after = page.locks.last().map(|(key, _)| key.clone());
            if !page.more {
                break;
            }
        }
        let all = KEYS.iter().flat_map(|key| self.lasting(key));
        let mut expected: Vec<_> = all.map(|lease| (lease.key.to_owned(), lease.owner, lease.ends)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_statements_agree_with_a_model() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        for step in 0..200 {
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.step()));
            assert!(tried.is_ok(), "seed {seed}, step {step}");
        }
    }
}
