//! Readers, writers and semaphores, while links break and the member is stopped or killed, on stores whose locks end
//! with a session. Holders that believe in their lock at the same time must be compatible.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::testing::eventually;
use distlock::{Guard, LockKind, LockManager};
use distlock_fixtures::{Direction, EtcdServers, Proxy, ZooKeeperServers};
use tokio::task::JoinSet;

use crate::each_store::LONG;

/// One server of one kind.
pub(crate) trait Member: Sized {
    fn start() -> Self;
    /// `host:port`.
    fn address(&self) -> String;
    /// The URL of this address, with a session of 3 s.
    fn url_at(address: &str) -> String;
    /// Waits until no process holds a lock or waits for one.
    fn has_no_locks(&self);
    /// kill −9, and a new start.
    fn restart(&mut self);
    /// SIGSTOP.
    fn stop(&self);
    /// SIGCONT.
    fn cont(&self);
}

macro_rules! member {
    ($servers:ty, $scheme:literal, $root:literal) => {
        impl Member for $servers {
            fn start() -> Self {
                <$servers>::one()
            }

            fn address(&self) -> String {
                self.address(0)
            }

            fn url_at(address: &str) -> String {
                format!("{}://{address}?session_timeout=3s&response_timeout=1s", $scheme)
            }

            fn has_no_locks(&self) {
                self.has_no_locks($root);
            }

            fn restart(&mut self) {
                self.restart(0);
            }

            fn stop(&self) {
                self.stop(0);
            }

            fn cont(&self) {
                self.cont(0);
            }
        }
    };
}

member!(EtcdServers, "etcd", "distlock/");
member!(ZooKeeperServers, "zookeeper", "/distlock");

/// The key and the kind that each task of a process requests.
const TASKS: [(&str, LockKind); 6] = [
    ("k", LockKind::Exclusive),
    ("k", LockKind::Shared),
    ("k", LockKind::Shared),
    ("n", LockKind::Limited { max_holders: 3 }),
    ("n", LockKind::Limited { max_holders: 3 }),
    ("n", LockKind::Limited { max_holders: 3 }),
];

type Inside = (&'static str, LockKind, Arc<Guard>);

/// Sees all holders of the locks.
#[derive(Debug, Default)]
struct Hall {
    inside: Vec<Inside>,
    sections: [usize; TASKS.len()],
    faults: Vec<String>,
}

impl Hall {
    fn enter(&mut self, task: usize, guard: &Arc<Guard>) {
        let (key, kind) = TASKS[task];
        // The belief of this holder is checked first. A holder that believes after that, believes at the same time.
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

/// Four managers, each over its own link.
struct Fleet<M: Member> {
    server: M,
    proxies: Vec<Proxy>,
    managers: Vec<LockManager>,
    hall: Arc<Mutex<Hall>>,
    workers: JoinSet<()>,
}

impl<M: Member> Fleet<M> {
    async fn start() -> Self {
        let server = M::start();
        let hall = Arc::new(Mutex::new(Hall::default()));
        let (mut proxies, mut managers, mut workers) = (Vec::new(), Vec::new(), JoinSet::new());
        for _ in 0..4 {
            let proxy = Proxy::to(&server.address());
            let url = M::url_at(&proxy.address().to_string());
            let manager = LockManager::builder().url(url).unavailable_after(LONG).connect().await.unwrap();
            for task in 0..TASKS.len() {
                workers.spawn(work(hall.clone(), manager.clone(), task));
            }
            proxies.push(proxy);
            managers.push(manager);
        }
        let fleet = Fleet { server, proxies, managers, hall, workers };
        fleet.works().await;
        fleet
    }

    /// Waits until all kinds have made progress.
    async fn works(&self) {
        let sections = || self.hall.lock().unwrap().sections;
        let before = sections();
        let got_on = || sections().iter().zip(before).all(|(now, before)| *now >= before + 5);
        eventually("they get on", async || got_on()).await;
    }

    /// Ends the workers, and checks that no rule was broken and no lock is left.
    async fn end(mut self) {
        self.works().await;
        self.workers.shutdown().await;
        assert_eq!(self.hall.lock().unwrap().faults, [""; 0]);
        self.hall.lock().unwrap().inside.clear();
        self.server.has_no_locks();
        drop(self.managers);
    }
}

pub(crate) async fn links_cut<M: Member>() {
    let fleet = Fleet::<M>::start().await;
    for round in 0..12 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    fleet.end().await;
}

pub(crate) async fn links_half_open<M: Member>() {
    let fleet = Fleet::<M>::start().await;
    for proxy in &fleet.proxies[..3] {
        proxy.swallow_all();
        // The locks of the process pass to others when its session ends.
        fleet.works().await;
        proxy.pass();
        fleet.works().await;
    }
    fleet.end().await;
}

pub(crate) async fn answers_late<M: Member>() {
    let fleet = Fleet::<M>::start().await;
    for _ in 0..3 {
        // The requests are executed, and the replies arrive when no caller waits for them any longer.
        fleet.proxies[0].hold(Direction::Replies);
        fleet.works().await;
        fleet.proxies[0].pass();
        fleet.works().await;
    }
    fleet.end().await;
}

pub(crate) async fn member_killed<M: Member>() {
    let mut fleet = Fleet::<M>::start().await;
    for _ in 0..3 {
        fleet.server.restart();
        fleet.works().await;
    }
    fleet.end().await;
}

/// For longer than a session lasts.
pub(crate) async fn member_stopped<M: Member>() {
    let fleet = Fleet::<M>::start().await;
    for _ in 0..2 {
        fleet.server.stop();
        let is_nobody_inside = || fleet.hall.lock().unwrap().inside.is_empty();
        eventually("all have lost what they held", async || is_nobody_inside()).await;
        fleet.server.cont();
        fleet.works().await;
    }
    fleet.end().await;
}

/// A test for each fault, on one store.
macro_rules! kinds_faults {
    ($member:ty) => {
        $crate::each_store::kinds_faults!(@each $member,
            links_cut, links_half_open, answers_late, member_killed, member_stopped);
    };
    (@each $member:ty, $($fault:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $fault() {
            $crate::each_store::kinds_faults::$fault::<$member>().await;
        })+
    };
}
pub(crate) use kinds_faults;
