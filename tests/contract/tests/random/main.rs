//! Random requests on the tables in a database, and an oracle that knows the promises. An owner that got the lock has
//! it for its ttl, only together with owners of a compatible kind. No other owner excludes a request.
//!
//! No test here depends on the speed of the server. Leases last for minutes, and a statement that sets all times back
//! lets time pass. `SEEDS=5000 cargo test -p distlock-contract-tests --test random` runs more seeds, and `SEED=17 …`
//! runs one.
//!
//! A further test: a statement that was too late has done nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod database;
mod late;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distlock::LockKind;
use distlock::store::kit::connection::ConnectionOptions;
use distlock::store::{
    Acquire, AcquireReply, LockStore, Owner, Queue, Release, ReleaseReply, Renew, RenewReply, StoreError,
    StoreEvents,
};
use distlock_fixtures::{MariaDbServer, PostgresServer};
use distlock_store::engine::Failure;
use fastrand::Rng;
use tokio::sync::{mpsc, watch};

use database::Database;

/// The number of requests in one run.
const REQUESTS: usize = 80;
/// Leases end 50 s before or after each time that a run moves to. A run that takes longer than this has no result.
const LONGEST_RUN: Duration = Duration::from_secs(40);
const TTLS: [u64; 3] = [150, 350, 950];
const STEPS: [u64; 3] = [100, 200, 400];
const TWO: LockKind = LockKind::Limited { max_holders: 2 };
/// The kind that each owner always requests.
const KINDS: [[LockKind; 6]; 4] = [
    [LockKind::Exclusive; 6],
    [
        LockKind::Shared,
        LockKind::Shared,
        LockKind::Shared,
        LockKind::Exclusive,
        LockKind::Exclusive,
        LockKind::Shared,
    ],
    [TWO; 6],
    [TWO, TWO, TWO, LockKind::Shared, LockKind::Exclusive, LockKind::Limited { max_holders: 3 }],
];

/// A store that runs as in a manager. Its reports are not needed.
struct Running<S> {
    store: Arc<S>,
    task: tokio::task::JoinHandle<()>,
    _wanted: watch::Sender<bool>,
}

impl<S: LockStore> Running<S> {
    fn start<D: Database<Store = S>>(url: &str, client: &str) -> Self {
        let store = Arc::new(D::open(url, &ConnectionOptions::default()).unwrap());
        let (reports, mut ignored) = mpsc::unbounded_channel();
        let (wanted, is_wanted) = watch::channel(true);
        let hints = Arc::new(AtomicUsize::new(0));
        let events = StoreEvents::new(client.into(), reports, hints.clone(), is_wanted);
        let running = store.clone();
        let task = tokio::spawn(async move {
            tokio::join!(running.run(events), async { while ignored.recv().await.is_some() {} });
        });
        Running { store, task, _wanted: wanted }
    }
}

impl<S> Drop for Running<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Repeats a request as long as it fails. Sets `is_unclear` if a failed request may have been executed.
async fn asked<T>(is_unclear: &AtomicBool, ask: impl AsyncFn() -> Result<T, StoreError>) -> T {
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(reply) => return reply,
            Err(error) => {
                assert!(begin.elapsed() < Duration::from_secs(60), "{error}");
                let nothing_done = matches!(error.kind, Failure::NotSent | Failure::Later);
                is_unclear.fetch_or(!nothing_done, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The promises to each owner. Times are those of a clock that begins with the run and is moved forward.
#[derive(Debug, Default)]
struct Oracle {
    moved: Duration,
    /// The owners that may rely on the lock, each until this time, and the keys that a release keeps taken.
    holders: BTreeMap<String, (LockKind, Duration)>,
    /// The owners that wait, each with the end of its place.
    waiting: BTreeMap<String, (LockKind, Duration)>,
    last_fence: u64,
}

fn go_together(one: LockKind, other: LockKind) -> bool {
    one == other && one != LockKind::Exclusive
}

impl Oracle {
    fn now(&self, begin: Instant) -> Duration {
        begin.elapsed() + self.moved
    }

    fn forget(&mut self, now: Duration) {
        self.holders.retain(|_, (_, until)| *until > now);
        self.waiting.retain(|_, (_, until)| *until > now);
    }

    fn holds(&self, owner: &Owner) -> bool {
        self.holders.contains_key(owner.as_str())
    }

    /// Records that an owner got the lock, at least until this time.
    fn given(&mut self, owner: &str, kind: LockKind, until: Duration) -> Result<(), String> {
        self.waiting.remove(owner);
        let former = self.holders.get(owner).map_or(Duration::ZERO, |(_, until)| *until);
        self.holders.insert(owner.to_owned(), (kind, until.max(former)));
        let most = match kind {
            LockKind::Exclusive => 1,
            LockKind::Shared => usize::MAX,
            LockKind::Limited { max_holders } => usize::try_from(max_holders).unwrap(),
        };
        let others = self.holders.iter().filter(|(name, _)| *name != owner);
        let is_alone = others.clone().all(|(_, (other, _))| go_together(kind, *other));
        if is_alone && self.holders.len() <= most { Ok(()) } else { Err("too many hold the lock".to_owned()) }
    }

    /// Whether another owner excludes this request.
    fn is_in_the_way(&self, owner: &Owner, kind: LockKind) -> bool {
        let others_wait = self.waiting.keys().any(|waiting| waiting != owner.as_str());
        let is_full = matches!(kind, LockKind::Limited { max_holders }
            if self.holders.len() >= usize::try_from(max_holders).unwrap());
        others_wait || is_full || self.holders.values().any(|(other, _)| !go_together(kind, *other))
    }
}

struct Run<D: Database> {
    stores: Vec<Running<D::Store>>,
    server: &'static D,
    tables: String,
    key: Arc<str>,
    kinds: [LockKind; 6],
    oracle: Oracle,
    begin: Instant,
    /// A failed request may have been executed, so the run has no result.
    is_unclear: AtomicBool,
    log: Vec<String>,
}

impl<D: Database> Run<D> {
    fn owner(&self, number: usize) -> (&D::Store, Owner, LockKind) {
        let process = number % self.stores.len();
        let owner = Owner::new(&format!("p{process}"), u64::try_from(number).unwrap());
        (&self.stores[process].store, owner, self.kinds[number])
    }

    async fn acquire(&mut self, rng: &mut Rng, number: usize) -> Result<(), String> {
        let (store, owner, kind) = self.owner(number);
        let ttl = Duration::from_secs(*rng.choice(&TTLS).unwrap());
        let mut request = Acquire::new(self.key.clone(), &owner, ttl);
        request.kind = kind;
        request.fences = u32::from(kind == LockKind::Exclusive);
        let claim = Duration::from_secs(*rng.choice(&TTLS).unwrap());
        request.queue = (D::QUEUES && rng.bool())
            .then(|| Queue::new(claim, Duration::from_secs(*rng.choice(&TTLS).unwrap())));
        let now = self.oracle.now(self.begin);
        let reply = asked(&self.is_unclear, async || store.acquire(&request).await).await;
        self.log.push(format!("{owner} acquires as {kind} for {ttl:?}, {:?}: {reply:?}", request.queue));
        let oracle = &mut self.oracle;
        match reply {
            AcquireReply::Acquired { .. } if oracle.holds(&owner) => {
                Err("it had the lock already".to_owned())
            }
            AcquireReply::AlreadyHeld { .. } if !oracle.holds(&owner) => Err("it did not have it".to_owned()),
            AcquireReply::Acquired { fence } | AcquireReply::AlreadyHeld { fence } => {
                if request.fences > 0 {
                    let fence = fence.ok_or("no fencing token")?;
                    if fence <= oracle.last_fence {
                        return Err(format!("the fencing token is not above {}", oracle.last_fence));
                    }
                    oracle.last_fence = fence;
                }
                oracle.given(owner.as_str(), kind, now + ttl)
            }
            _ if oracle.holds(&owner) => Err("it has the lock".to_owned()),
            AcquireReply::Busy(_) => {
                let is_right = oracle.is_in_the_way(&owner, kind);
                if let Some(queue) = request.queue {
                    oracle.waiting.insert(owner.as_str().to_owned(), (kind, now + queue.entry_ttl));
                }
                if is_right { Ok(()) } else { Err("nobody is in the way".to_owned()) }
            }
            AcquireReply::WrongKind { .. } if oracle.is_in_the_way(&owner, kind) => Ok(()),
            AcquireReply::WrongKind { .. } => Err("nobody holds it as another kind".to_owned()),
        }
    }

    async fn renew(&mut self, rng: &mut Rng, number: usize) -> Result<(), String> {
        let (store, owner, kind) = self.owner(number);
        let ttl = Duration::from_secs(*rng.choice(&TTLS).unwrap());
        let mut request = Renew::new(self.key.clone(), &owner, ttl);
        request.kind = kind;
        let now = self.oracle.now(self.begin);
        let reply = asked(&self.is_unclear, async || store.renew(&request).await).await;
        self.log.push(format!("{owner} renews for {ttl:?}: {reply:?}"));
        match (reply, self.oracle.holds(&owner)) {
            (RenewReply::Renewed, true) => self.oracle.given(owner.as_str(), kind, now + ttl),
            (RenewReply::NotHeld, false) => Ok(()),
            (RenewReply::Renewed, false) => Err("it did not have the lock".to_owned()),
            (RenewReply::NotHeld, true) => Err("it has the lock".to_owned()),
        }
    }

    async fn release(&mut self, rng: &mut Rng, number: usize) -> Result<(), String> {
        let (store, owner, kind) = self.owner(number);
        let mut request = Release::new(self.key.clone(), &owner);
        request.keep = (rng.u32(0..4) == 0).then(|| Duration::from_secs(*rng.choice(&TTLS).unwrap()));
        let now = self.oracle.now(self.begin);
        let reply = asked(&self.is_unclear, async || store.release(&request).await).await;
        self.log.push(format!("{owner} releases, and keeps {:?}: {reply:?}", request.keep));
        let held = self.oracle.holders.remove(owner.as_str());
        self.oracle.waiting.remove(owner.as_str());
        if held.is_some() && reply == ReleaseReply::NotHeld {
            return Err("it has the lock".to_owned());
        }
        if let Some(keep) = request.keep.filter(|_| held.is_some()) {
            // An earlier kept place of the same owner ends then, too, because both are one holder.
            let name = format!("kept by {owner}");
            self.oracle.holders.remove(&name);
            return self.oracle.given(&name, kind, now + keep);
        }
        Ok(())
    }

    async fn force_release(&mut self) {
        let store = &self.stores[0].store;
        let reply = asked(&self.is_unclear, async || store.force_release(&self.key).await).await;
        self.log.push(format!("force_release: {reply}"));
        self.oracle.holders.clear();
    }

    async fn time_passes(&mut self, rng: &mut Rng) {
        let step = *rng.choice(&STEPS).unwrap();
        self.server.carry_out(&D::age(&self.tables, step)).await;
        self.log.push(format!("{step} s pass"));
        self.oracle.moved += Duration::from_secs(step);
    }

    /// Checks that every owner that relies on the lock is shown as a holder for that time, and no other owner unless it
    /// has waited.
    async fn look(&mut self) -> Result<(), String> {
        let store = &self.stores[0].store;
        let now = self.oracle.now(self.begin);
        let found = asked(&self.is_unclear, async || store.inspect(&self.key).await).await;
        self.oracle.forget(now);
        let shown: BTreeMap<String, Duration> = found
            .into_iter()
            .flat_map(|lock| lock.holders)
            .map(|(holder, left)| (holder, left.unwrap_or(Duration::MAX)))
            .collect();
        self.log.push(format!("    {shown:?}"));
        for (holder, left) in &shown {
            if let Some((kind, _)) = self.oracle.waiting.get(holder).copied() {
                self.oracle.given(holder, kind, now + *left)?;
            } else if !self.oracle.holders.contains_key(holder) && !holder.starts_with("dl1:hold") {
                return Err(format!("{holder} is shown, and does not hold the lock"));
            }
        }
        for (holder, (_, until)) in &self.oracle.holders {
            let slack = LONGEST_RUN;
            let is_shown = shown.get(holder).is_some_and(|left| now + *left + slack > *until);
            if !is_shown && !holder.starts_with("kept") {
                return Err(format!("{holder} holds the lock for {:?} more", *until - now));
            }
        }
        Ok(())
    }

    async fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let number = rng.usize(0..self.kinds.len());
        match rng.u32(0..20) {
            0..10 => self.acquire(rng, number).await?,
            10..13 => self.renew(rng, number).await?,
            13..17 => self.release(rng, number).await?,
            17 if rng.u32(0..4) == 0 => self.force_release().await,
            _ => self.time_passes(rng).await,
        }
        self.look().await
    }
}

/// Creates separate tables. `change` may replace the functions.
async fn tables<D: Database>(server: &D, change: impl FnOnce(&str) -> Option<String>) -> String {
    let tables = D::unused_tables();
    let first = Running::start::<D>(&server.url_of(&tables), "first");
    asked(&AtomicBool::default(), async || first.store.inspect("k").await).await;
    if let Some(sql) = change(&tables) {
        server.carry_out(&sql).await;
    }
    tables
}

/// Searches for a broken promise, and returns the first one.
async fn hunt<D: Database>(
    seeds: std::ops::Range<u64>,
    change: impl FnOnce(&str) -> Option<String>,
) -> Option<String> {
    let server = D::shared();
    let tables = tables(server, change).await;
    let url = server.url_of(&tables);
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let stores = (0..2).map(|process| Running::start::<D>(&url, &format!("p{process}"))).collect();
        let kinds = *rng.choice(&KINDS).unwrap();
        let key = format!("k{seed}").into();
        let (oracle, begin, tables) = (Oracle::default(), Instant::now(), tables.clone());
        let (is_unclear, log) = (AtomicBool::default(), Vec::new());
        let mut run = Run { stores, server, tables, key, kinds, oracle, begin, is_unclear, log };
        for _ in 0..REQUESTS {
            let broken = run.step(&mut rng).await.err();
            if run.begin.elapsed() > LONGEST_RUN || run.is_unclear.load(Ordering::Relaxed) {
                break;
            }
            if let Some(broken) = broken {
                return Some(format!("seed {seed}: {broken}\n{}", run.log.join("\n")));
            }
        }
    }
    None
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

async fn promises_are_kept<D: Database>() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(40),
    };
    assert_eq!(hunt::<D>(seeds, |_| None).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_for_promises_are_kept() {
    promises_are_kept::<PostgresServer>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_for_promises_are_kept_on_mariadb() {
    promises_are_kept::<MariaDbServer>().await;
}

/// The functions of version 0.1.0.
const REVISION_1: &str = include_str!("../../../postgres/revision_1.sql");

/// In version 0.1.0, a lock with several holders ended with the lease of the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_functions_of_version_0_1_0_break_one() {
    let earlier = |schema: &str| {
        let functions = ["take_1", "join_1"].map(|name| {
            let begin = REVISION_1.find(&format!("CREATE OR REPLACE FUNCTION @.{name}(")).unwrap();
            let length = REVISION_1[begin..].find("END $$;").unwrap() + "END $$;".len();
            &REVISION_1[begin..begin + length]
        });
        Some(functions.concat().replace("@.", &format!("{schema}.")))
    };
    let broken = hunt::<PostgresServer>(0..400, earlier).await.expect("a promise is broken");
    assert!(broken.contains("too many hold the lock"), "{broken}");
}
