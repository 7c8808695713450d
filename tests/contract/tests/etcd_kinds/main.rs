//! Random requests for locks of all kinds on etcd, one after the other, and a model that knows each answer: a queue of
//! places. Whoever holds the lock according to the model must be shown, and told if it has waited; nobody else.
//!
//! And what an earlier connection sends comes to nothing.
//!
//! `SEEDS=500 cargo test -p distlock-contract-tests --test etcd_kinds` looks at more seeds, and `SEED=17 …` at one.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod model;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock::LockKind;
use distlock::store::kit::connection::ConnectionOptions;
use distlock::store::{
    Acquire, AcquireReply, KEPT, LockStore, Owner, Queue, Release, ReleaseReply, Renew, RenewReply,
    StoreError, StoreEvents,
};
use distlock_etcd::EtcdStore;
use distlock_fixtures::EtcdServers;
use distlock_store::engine::{Failure, Report};
use fastrand::Rng;
use model::Model;
use tokio::sync::{mpsc, watch};

/// Requests in one run.
const REQUESTS: usize = 70;
/// Longer than everything takes.
const LONG: Duration = Duration::from_secs(600);
const BOUND: Duration = Duration::from_secs(60);
const TWO: LockKind = LockKind::Limited { max_holders: 2 };
const TWENTY: LockKind = LockKind::Limited { max_holders: 20 };
use LockKind::{Exclusive, Shared};
/// What each asks for, always the same.
const KINDS: [[LockKind; 7]; 5] = [
    [Exclusive, Exclusive, Exclusive, Exclusive, Exclusive, Shared, Shared],
    [Shared, Shared, Shared, Shared, Shared, Exclusive, Exclusive],
    [TWO; 7],
    [TWO, TWO, TWO, TWO, TWENTY, TWENTY, Shared],
    [TWO, TWO, TWO, Shared, Shared, Exclusive, Exclusive],
];

type Grants = Vec<(String, Option<u64>)>;

/// A store that runs as in a manager.
struct Running {
    store: Arc<EtcdStore>,
    client: String,
    /// Who was told that the lock is its own, and with which fencing token.
    granted: Arc<Mutex<Grants>>,
    task: tokio::task::JoinHandle<()>,
    _wanted: watch::Sender<bool>,
}

impl Running {
    fn start(url: &str) -> Running {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let client = format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let store = Arc::new(EtcdStore::new(url, &ConnectionOptions::default()).unwrap());
        let (sender, mut reports) = mpsc::unbounded_channel();
        let (wanted, is_wanted) = watch::channel(true);
        let events = StoreEvents::new(client.as_str().into(), sender, Arc::default(), is_wanted);
        let granted = Arc::new(Mutex::new(Grants::new()));
        let (running, hearing) = (store.clone(), granted.clone());
        let hear = async move {
            while let Some(report) = reports.recv().await {
                if let Report::Granted { owner, fence, .. } = report {
                    hearing.lock().unwrap().push((owner, fence));
                }
            }
        };
        let task = tokio::spawn(async move {
            tokio::join!(running.run(events), hear);
        });
        Running { store, client, granted, task, _wanted: wanted }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Again, as long as nothing was done.
async fn asked<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, Ended> {
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(reply) => return Ok(reply),
            // There is nobody else.
            Err(error) if error.to_string().contains("faster than we can ask") => {
                return Err(Ended::Wrong(error.to_string()));
            }
            Err(error) if matches!(error.kind, Failure::NotSent | Failure::Later) => {
                assert!(begin.elapsed() < BOUND, "{error}");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(_) => return Err(Ended::Unclear),
        }
    }
}

/// Why a run has ended early.
enum Ended {
    /// A request may have been carried out although it has failed: then nothing can be said.
    Unclear,
    Wrong(String),
}

struct Run {
    processes: Vec<Running>,
    url: String,
    key: Arc<str>,
    kinds: [LockKind; 7],
    /// The attempt that each makes now.
    attempts: [u64; 7],
    model: Model,
    /// Those who wait, and have not been told.
    untold: Vec<String>,
    last_fence: u64,
    log: Vec<String>,
}

fn is<T: PartialEq + std::fmt::Debug>(said: T, expected: T) -> Result<(), Ended> {
    if said == expected { Ok(()) } else { Err(Ended::Wrong(format!("{said:?} instead of {expected:?}"))) }
}

impl Run {
    fn owner(&self, number: usize) -> (Arc<EtcdStore>, Owner, LockKind) {
        let process = &self.processes[number % self.processes.len()];
        let attempt = self.attempts[number] * 10 + u64::try_from(number).unwrap();
        (process.store.clone(), Owner::new(&process.client, attempt), self.kinds[number])
    }

    fn rises(&mut self, fence: Option<u64>) -> Result<(), Ended> {
        let last = self.last_fence;
        let fence = fence.filter(|fence| *fence > last);
        self.last_fence =
            fence.ok_or_else(|| Ended::Wrong(format!("the fencing token is not above {last}")))?;
        Ok(())
    }

    async fn acquire(&mut self, rng: &mut Rng, number: usize) -> Result<(), Ended> {
        let (store, owner, kind) = self.owner(number);
        let mut request = Acquire::new(self.key.clone(), &owner, LONG);
        request.kind = kind;
        request.fences = u32::from(kind == LockKind::Exclusive);
        let waits = self.untold.iter().any(|waiter| waiter == owner.as_str());
        request.queue = (waits || rng.bool()).then(|| Queue::new(LONG, LONG));
        let reply = asked(async || store.acquire(&request).await).await?;
        let queues = request.queue.is_some();
        self.log.push(format!("{owner} acquires as {kind}, queues: {queues}: {reply:?}"));
        let expected = self.model.acquire(owner.as_str(), kind, queues);
        if queues && !waits && matches!(expected, AcquireReply::Busy(_)) {
            self.untold.push(owner.as_str().to_owned());
        }
        match reply {
            AcquireReply::Acquired { fence } | AcquireReply::AlreadyHeld { fence } if request.fences > 0 => {
                self.rises(fence)?;
            }
            _ => {}
        }
        is(unfenced(reply), expected)
    }

    async fn renew(&mut self, number: usize) -> Result<(), Ended> {
        let (store, owner, kind) = self.owner(number);
        // Of those who wait nobody asks.
        if self.model.position(owner.as_str()).is_some() && !self.model.holds(owner.as_str()) {
            return Ok(());
        }
        let mut request = Renew::new(self.key.clone(), &owner, LONG);
        request.kind = kind;
        let reply = asked(async || store.renew(&request).await).await?;
        self.log.push(format!("{owner} renews: {reply:?}"));
        let holds = self.model.holds(owner.as_str());
        is(reply, if holds { RenewReply::Renewed } else { RenewReply::NotHeld })
    }

    /// By its own process, or by another one.
    async fn release(&mut self, rng: &mut Rng, number: usize) -> Result<(), Ended> {
        let (mut store, owner, _) = self.owner(number);
        let mut request = Release::new(self.key.clone(), &owner);
        let at = self.model.position(owner.as_str());
        match rng.u32(0..4) {
            0 if self.model.holds(owner.as_str()) => request.keep = Some(LONG),
            1 => store = rng.choice(&self.processes).unwrap().store.clone(),
            _ => {}
        }
        let reply = asked(async || store.release(&request).await).await?;
        self.log.push(format!("{owner} is released, and keeps {:?}: {reply:?}", request.keep));
        match at {
            Some(at) if request.keep.is_some() => self.model.0[at].is_kept = true,
            Some(at) => drop(self.model.0.remove(at)),
            None => {}
        }
        self.untold.retain(|waiter| waiter != owner.as_str());
        self.attempts[number] += 1;
        if request.keep.is_some() {
            // Once more, as if the answer had been lost: what is kept is not the owner's.
            let again = Release::new(self.key.clone(), &owner);
            is(asked(async || store.release(&again).await).await?, ReleaseReply::NotHeld)?;
        }
        is(reply, if at.is_some() { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn release_kept(&mut self) -> Result<(), Ended> {
        let request = Release::new(self.key.clone(), &Owner::of_text(&KEPT.into()));
        let reply = asked(async || self.processes[0].store.release(&request).await).await?;
        self.log.push(format!("what is kept is released: {reply:?}"));
        let kept = self.model.0.iter().position(|place| place.is_kept);
        is(reply, if kept.is_some() { ReleaseReply::Released } else { ReleaseReply::NotHeld })?;
        if let Some(at) = kept {
            self.model.0.remove(at);
        }
        Ok(())
    }

    async fn force_release(&mut self) -> Result<(), Ended> {
        let reply = asked(async || self.processes[0].store.force_release(&self.key).await).await?;
        self.log.push(format!("force_release: {reply}"));
        let holders = self.model.parties().0.len();
        self.model.0.drain(..holders);
        is(reply, holders > 0)
    }

    /// What it has kept stays.
    async fn a_process_ends(&mut self, rng: &mut Rng) {
        let which = rng.usize(0..self.processes.len());
        let ended = std::mem::replace(&mut self.processes[which], Running::start(&self.url));
        ended.store.close().await;
        self.log.push(format!("{} ends", ended.client));
        let begins = format!("dl1:{}:", ended.client);
        self.model.0.retain(|place| place.is_kept || !place.owner.starts_with(&begins));
        self.untold.retain(|waiter| !waiter.starts_with(&begins));
    }

    /// Those who hold it are shown, and those who have waited are told; nobody else.
    async fn look(&mut self) -> Result<(), Ended> {
        let found = asked(async || self.processes[0].store.inspect(&self.key).await).await?;
        let (holders, waiters) = self.model.parties();
        let shown =
            found.map(|lock| (lock.kind, lock.holders, lock.waiting)).map(|(kind, holders, waiting)| {
                (kind, holders.into_iter().map(|(holder, _)| holder).collect(), waiting)
            });
        is(shown, self.model.0.first().map(|first| (first.kind, holders, waiters)))?;
        let begin = Instant::now();
        loop {
            let heard = |process: &Running| std::mem::take(&mut *process.granted.lock().unwrap());
            let heard: Vec<_> = self.processes.iter().flat_map(heard).collect();
            for (owner, fence) in heard {
                self.log.push(format!("    {owner} is told, {fence:?}"));
                let Some(at) = self.untold.iter().position(|waiter| *waiter == owner) else {
                    // It has gone since, or was told.
                    is(self.model.position(&owner).is_none(), true)?;
                    continue;
                };
                is(self.model.holds(&owner), true)?;
                self.untold.remove(at);
                let position = self.model.position(&owner).unwrap();
                if self.model.0[position].kind == LockKind::Exclusive {
                    self.rises(fence)?;
                }
            }
            let Some(next) = self.untold.iter().find(|waiter| self.model.holds(waiter)) else {
                return Ok(());
            };
            if begin.elapsed() > BOUND {
                return Err(Ended::Wrong(format!("{next} is not told")));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn step(&mut self, rng: &mut Rng) -> Result<(), Ended> {
        let number = rng.usize(0..self.kinds.len());
        match rng.u32(0..40) {
            0..22 => self.acquire(rng, number).await?,
            22..25 => self.renew(number).await?,
            25..36 => self.release(rng, number).await?,
            36 => self.force_release().await?,
            37..39 => self.release_kept().await?,
            _ => self.a_process_ends(rng).await,
        }
        self.look().await
    }
}

fn unfenced(reply: AcquireReply) -> AcquireReply {
    match reply {
        AcquireReply::Acquired { .. } => AcquireReply::Acquired { fence: None },
        AcquireReply::AlreadyHeld { .. } => AcquireReply::AlreadyHeld { fence: None },
        other => other,
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_asked_for_the_answer_is_that_of_the_model() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(30),
    };
    let servers = EtcdServers::shared();
    let url = format!("etcd://{}?session_timeout=600s&response_timeout=4s", servers.address(0));
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let mut run = Run {
            processes: (0..2).map(|_| Running::start(&url)).collect(),
            url: url.clone(),
            key: format!("kinds{seed}").into(),
            kinds: *rng.choice(&KINDS).unwrap(),
            attempts: [1; 7],
            model: Model::default(),
            untold: Vec::new(),
            last_fence: 0,
            log: Vec::new(),
        };
        for _ in 0..REQUESTS {
            match run.step(&mut rng).await {
                Ok(()) => {}
                Err(Ended::Unclear) => break,
                Err(Ended::Wrong(wrong)) => panic!("seed {seed}: {wrong}\n{}", run.log.join("\n")),
            }
        }
    }
}

/// However late: another connection of the process has written the session's key since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_connection_writes_nothing() {
    let servers = EtcdServers::shared();
    let url = format!("etcd://{}?session_timeout=600s&response_timeout=4s", servers.address(0));
    let (process, other) = (Running::start(&url), Running::start(&url));
    let (store, session) = (&process.store, format!("distlock/sessions/{}", process.client));
    for what in ["acquires", "reads beside another", "releases", "releases and keeps"] {
        let begin = Instant::now();
        // Again if it has noticed between the two, and has a new connection.
        for attempt in 1.. {
            assert!(begin.elapsed() < BOUND, "what an earlier connection {what} is never refused");
            let (key, owner) = (Arc::from(format!("{what}{attempt}")), Owner::new(&process.client, attempt));
            let mut request = Acquire::new(Arc::clone(&key), &owner, LONG);
            let mut release = Release::new(Arc::clone(&key), &owner);
            release.keep = (what == "releases and keeps").then_some(LONG);
            let is_release = what.starts_with("releases");
            let is_connected = if is_release {
                asked(async || store.acquire(&request).await).await.is_ok()
            } else {
                asked(async || store.inspect(&key).await).await.is_ok()
            };
            if what == "reads beside another" {
                request.kind = Shared;
                let mut beside = Acquire::new(Arc::clone(&key), &Owner::new(&other.client, attempt), LONG);
                beside.kind = Shared;
                drop(asked(async || other.store.acquire(&beside).await).await);
            }
            servers.ctl(&["put", &session, "of another connection"]);
            let said = if is_release {
                store.release(&release).await.map(drop)
            } else {
                store.acquire(&request).await.map(drop)
            };
            let is_refused =
                |error: StoreError| error.to_string().contains("the session has another connection");
            if is_connected && said.is_err_and(is_refused) {
                break;
            }
        }
    }
}
