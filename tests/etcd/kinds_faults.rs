//! Readers, writers and semaphores at work while links break and the member stops or is killed: those who believe that
//! they hold a lock never exclude each other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::{Guard, LockKind, LockManager};
use distlock_tests::{Direction, EtcdServers, Proxy, eventually};
use tokio::task::JoinSet;

use crate::etcd::LONG;

/// What each task of a process asks for, and of which key.
const TASKS: [(&str, LockKind); 6] = [
    ("k", LockKind::Exclusive),
    ("k", LockKind::Shared),
    ("k", LockKind::Shared),
    ("n", LockKind::Limited { max_holders: 3 }),
    ("n", LockKind::Limited { max_holders: 3 }),
    ("n", LockKind::Limited { max_holders: 3 }),
];

type Inside = (&'static str, LockKind, Arc<Guard>);

/// Sees all who hold a lock.
#[derive(Debug, Default)]
struct Hall {
    inside: Vec<Inside>,
    sections: [usize; TASKS.len()],
    faults: Vec<String>,
}

impl Hall {
    fn enter(&mut self, task: usize, guard: &Arc<Guard>) {
        let (key, kind) = TASKS[task];
        // Its own belief first: who believes after that believes at the same time.
        let believes = guard.is_held();
        let others = self.inside.iter().filter(|(other, _, guard)| *other == key && guard.is_held());
        let others: Vec<LockKind> = others.map(|(_, kind, _)| *kind).collect();
        let is_alone = match kind {
            LockKind::Exclusive => others.is_empty(),
            LockKind::Shared => others.iter().all(|other| *other == kind),
            LockKind::Limited { max_holders } => others.len() < usize::try_from(max_holders).unwrap(),
        };
        if believes && !is_alone {
            self.faults.push(format!("{kind} beside {others:?}"));
        }
        self.inside.push((key, kind, guard.clone()));
        self.sections[task] += 1;
    }

    fn leave(&mut self, guard: &Arc<Guard>) {
        self.inside.retain(|(_, _, other)| !Arc::ptr_eq(other, guard));
    }
}

async fn work(hall: Arc<Mutex<Hall>>, manager: LockManager, task: usize) {
    let (key, kind) = TASKS[task];
    loop {
        let request = manager.lock(key).ttl(Duration::from_secs(2)).wait(Duration::from_secs(30));
        let request = match kind {
            LockKind::Exclusive => request,
            LockKind::Shared => request.shared(),
            LockKind::Limited { max_holders } => request.max_holders(max_holders),
        };
        let Ok(guard) = request.acquire().await.map(Arc::new) else { continue };
        hall.lock().unwrap().enter(task, &guard);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
            _ = guard.lost() => {}
        }
        hall.lock().unwrap().leave(&guard);
    }
}

/// Four processes, each over a link of its own.
struct Fleet {
    servers: EtcdServers,
    proxies: Vec<Proxy>,
    managers: Vec<LockManager>,
    hall: Arc<Mutex<Hall>>,
    workers: JoinSet<()>,
}

impl Fleet {
    async fn start() -> Self {
        let servers = EtcdServers::one();
        let hall = Arc::new(Mutex::new(Hall::default()));
        let (mut proxies, mut managers, mut workers) = (Vec::new(), Vec::new(), JoinSet::new());
        for _ in 0..4 {
            let proxy = Proxy::to(&servers.address(0));
            let url = format!("etcd://{}?session_timeout=3s&response_timeout=1s", proxy.address());
            let manager = LockManager::builder().url(url).unavailable_after(LONG).connect().await.unwrap();
            for task in 0..TASKS.len() {
                workers.spawn(work(hall.clone(), manager.clone(), task));
            }
            proxies.push(proxy);
            managers.push(manager);
        }
        let fleet = Fleet { servers, proxies, managers, hall, workers };
        fleet.works().await;
        fleet
    }

    /// Waits until all kinds get on.
    async fn works(&self) {
        let sections = || self.hall.lock().unwrap().sections;
        let before = sections();
        let got_on = || sections().iter().zip(before).all(|(now, before)| *now >= before + 5);
        eventually("they get on", async || got_on()).await;
    }

    /// They end: nothing was wrong, and nothing is left.
    async fn end(mut self) {
        self.works().await;
        self.workers.shutdown().await;
        assert_eq!(self.hall.lock().unwrap().faults, [""; 0]);
        self.hall.lock().unwrap().inside.clear();
        self.servers.has_no_locks("distlock/");
        drop(self.managers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cut() {
    let fleet = Fleet::start().await;
    for round in 0..12 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_half_open() {
    let fleet = Fleet::start().await;
    for proxy in &fleet.proxies[..3] {
        proxy.swallow_all();
        // What the process held goes to others with its session.
        fleet.works().await;
        proxy.pass();
        fleet.works().await;
    }
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_late() {
    let fleet = Fleet::start().await;
    for _ in 0..3 {
        // What was asked is carried out, and answered when nobody waits for it any more.
        fleet.proxies[0].hold(Direction::Replies);
        fleet.works().await;
        fleet.proxies[0].pass();
        fleet.works().await;
    }
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_killed() {
    let mut fleet = Fleet::start().await;
    for _ in 0..3 {
        fleet.servers.restart(0);
        fleet.works().await;
    }
    fleet.end().await;
}

/// For longer than a session lasts.
#[tokio::test(flavor = "multi_thread")]
async fn member_stopped() {
    let fleet = Fleet::start().await;
    for _ in 0..2 {
        fleet.servers.stop(0);
        let is_nobody_inside = || fleet.hall.lock().unwrap().inside.is_empty();
        eventually("all have lost what they held", async || is_nobody_inside()).await;
        fleet.servers.cont(0);
        fleet.works().await;
    }
    fleet.end().await;
}
