//! Random requests, one after the other, for locks of all kinds on the stores whose locks are queues of places, and a
//! model that knows each reply. The owners that hold the lock in the model, and no others, must be shown as holders,
//! and get a grant if they have waited.
//!
//! A further test: commands of an earlier connection to etcd have no effect.
//!
//! `SEEDS=500 cargo test -p distlock-contract-tests --test kinds` runs more seeds, and `SEED=17 …` runs one.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod etcd;
mod model;
mod running;

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::LockKind;
use distlock::store::{
    Acquire, AcquireReply, KEPT, LockStore, Owner, Queue, Release, ReleaseReply, Renew, RenewReply,
};
use distlock_contract_tests::Server;
use distlock_fixtures::{EtcdServers, ZooKeeperServers};
use fastrand::Rng;
use model::Model;
use running::{BOUND, Ended, LONG, Running, asked};

/// The number of requests in one run.
const REQUESTS: usize = 70;
const TWO: LockKind = LockKind::Limited { max_holders: 2 };
const TWENTY: LockKind = LockKind::Limited { max_holders: 20 };
use LockKind::{Exclusive, Shared};
/// The kind that each owner always requests.
const KINDS: [[LockKind; 7]; 5] = [
    [Exclusive, Exclusive, Exclusive, Exclusive, Exclusive, Shared, Shared],
    [Shared, Shared, Shared, Shared, Shared, Exclusive, Exclusive],
    [TWO; 7],
    [TWO, TWO, TWO, TWO, TWENTY, TWENTY, Shared],
    [TWO, TWO, TWO, Shared, Shared, Exclusive, Exclusive],
];

struct Run<S: Server> {
    processes: Vec<Running<S>>,
    url: String,
    key: Arc<str>,
    kinds: [LockKind; 7],
    /// The present attempt of each owner.
    attempts: [u64; 7],
    model: Model,
    /// The owners that wait, and have not got a grant.
    untold: Vec<String>,
    last_fence: u64,
    log: Vec<String>,
}

fn is<T: PartialEq + std::fmt::Debug>(said: T, expected: T) -> Result<(), Ended> {
    if said == expected { Ok(()) } else { Err(Ended::Wrong(format!("{said:?} instead of {expected:?}"))) }
}

impl<S: Server> Run<S> {
    fn owner(&self, number: usize) -> (Arc<S::Store>, Owner, LockKind) {
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
        // Owners that wait do not ask again.
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

    /// The release comes from the owner's process or from another one.
    async fn release(&mut self, rng: &mut Rng, number: usize) -> Result<(), Ended> {
        let (mut store, owner, _) = self.owner(number);
        let mut request = Release::new(self.key.clone(), &owner);
        let at = self.model.position(owner.as_str());
        let keeps = store.abilities().min_hold;
        match rng.u32(0..4) {
            0 if keeps && self.model.holds(owner.as_str()) => request.keep = Some(LONG),
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
            // Repeats the release, as after a lost reply. A kept place no longer belongs to the owner.
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

    /// Its kept places stay.
    async fn a_process_ends(&mut self, rng: &mut Rng) {
        let which = rng.usize(0..self.processes.len());
        let ended = std::mem::replace(&mut self.processes[which], Running::start(&self.url));
        ended.store.close().await;
        self.log.push(format!("{} ends", ended.client));
        let begins = format!("dl1:{}:", ended.client);
        self.model.0.retain(|place| place.is_kept || !place.owner.starts_with(&begins));
        self.untold.retain(|waiter| !waiter.starts_with(&begins));
    }

    /// Checks that exactly the holders are shown, and that exactly those that have waited got a grant.
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
            let heard = |process: &Running<S>| std::mem::take(&mut *process.granted.lock().unwrap());
            let heard: Vec<_> = self.processes.iter().flat_map(heard).collect();
            for (owner, fence) in heard {
                self.log.push(format!("    {owner} is told, {fence:?}"));
                let Some(at) = self.untold.iter().position(|waiter| *waiter == owner) else {
                    // The owner has left since then, or has got a grant.
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

async fn whatever_is_asked_for_the_answer_is_that_of_the_model<S: Server>() {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(30),
    };
    let url = format!("{}&response_timeout=4s", S::shared().url(None));
    for seed in seeds {
        let mut rng = Rng::with_seed(seed);
        let mut run = Run::<S> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_etcd_whatever_is_asked_for_the_answer_is_that_of_the_model() {
    whatever_is_asked_for_the_answer_is_that_of_the_model::<EtcdServers>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_zookeeper_whatever_is_asked_for_the_answer_is_that_of_the_model() {
    whatever_is_asked_for_the_answer_is_that_of_the_model::<ZooKeeperServers>().await;
}
