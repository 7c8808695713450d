//! Locks with several holders, while links, connections, statements and the server fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::testing::eventually;
use distlock::{Guard, LockError, LockKind, LockManager};
use distlock_fixtures::{MariaDbServer, Proxy};

use crate::each_store::{LONG, manager};
use crate::mysql::several::{KINDS, TWO, request};

/// The present holders, as they believe.
#[derive(Default)]
struct Company {
    inside: Vec<(LockKind, Arc<Guard>)>,
    sections: u64,
    faults: Vec<String>,
}

impl Company {
    fn enter(&mut self, kind: LockKind, guard: &Arc<Guard>) {
        // The belief of this holder is checked first. Holders that believe after that, believe at the same time.
        let believes = guard.is_held();
        let others = self.inside.iter().filter(|(_, other)| other.is_held()).map(|(kind, _)| *kind);
        let others: Vec<LockKind> = others.collect();
        let is_sound = match kind {
            LockKind::Exclusive => others.is_empty(),
            LockKind::Shared => others.iter().all(|other| *other == kind),
            LockKind::Limited { max_holders } => others.len() < usize::try_from(max_holders).unwrap(),
        };
        if believes && !is_sound {
            self.faults.push(format!("{kind} beside {others:?}"));
        }
        self.inside.push((kind, guard.clone()));
        self.sections += 1;
    }
}

/// Acquires a key repeatedly, with each kind in turn, until the task is aborted.
async fn work(company: Arc<Mutex<Company>>, manager: LockManager, key: &'static str, kinds: Vec<LockKind>) {
    for kind in kinds.into_iter().cycle() {
        let asked = request(&manager, key, kind).ttl(Duration::from_secs(2)).wait(Duration::from_secs(30));
        let Ok(guard) = asked.acquire().await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let guard = Arc::new(guard);
        company.lock().unwrap().enter(kind, &guard);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(2)) => {}
            _ = guard.lost() => {}
        }
        company.lock().unwrap().inside.retain(|(_, other)| !Arc::ptr_eq(other, &guard));
    }
}

/// Readers and writers of one key, and holders of another one, each over its own link.
struct Crowd {
    companies: [Arc<Mutex<Company>>; 2],
    proxies: Vec<Proxy>,
    workers: tokio::task::JoinSet<()>,
    /// The managers stay alive until they have released the locks of their workers.
    managers: Vec<LockManager>,
}

impl Crowd {
    async fn start(server: &MariaDbServer) -> Self {
        let companies: [Arc<Mutex<Company>>; 2] = std::array::from_fn(|_| Arc::default());
        let (mut proxies, mut managers) = (Vec::new(), Vec::new());
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let proxy = Proxy::to(&server.address());
            let manager = manager(&server.url_through(&proxy)).await;
            let reads = vec![LockKind::Shared, LockKind::Shared, LockKind::Exclusive];
            workers.spawn(work(companies[0].clone(), manager.clone(), "book", reads));
            workers.spawn(work(companies[1].clone(), manager.clone(), "export", vec![TWO]));
            proxies.push(proxy);
            managers.push(manager);
        }
        let crowd = Crowd { companies, proxies, workers, managers };
        crowd.works().await;
        crowd
    }

    async fn works(&self) {
        for company in &self.companies {
            let before = company.lock().unwrap().sections;
            eventually("they get on", async || company.lock().unwrap().sections > before + 40).await;
        }
    }

    /// Checks that no rule was broken and no lock is left.
    async fn judge(mut self, server: &MariaDbServer) {
        self.works().await;
        self.workers.shutdown().await;
        for company in &self.companies {
            let mut company = company.lock().unwrap();
            company.inside.clear();
            assert_eq!(company.faults, [""; 0]);
        }
        eventually("nothing is left", async || server.residue("distlock_", "").await.is_empty()).await;
        let holders = "SELECT COUNT(*) FROM distlock_holder_1 WHERE expires > UTC_TIMESTAMP(6)";
        eventually("no holder is left", async || server.number(holders).await == 0).await;
        drop(self.managers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cut_and_half_open() {
    let server = MariaDbServer::start();
    let crowd = Crowd::start(&server).await;
    for round in 0..12 {
        crowd.proxies[round % 4].cut();
        crowd.works().await;
    }
    for proxy in &crowd.proxies[..2] {
        proxy.swallow_all();
        crowd.works().await;
        proxy.pass();
    }
    crowd.judge(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_statements_ended_by_the_administrator() {
    let server = MariaDbServer::start();
    let crowd = Crowd::start(&server).await;
    for _ in 0..8 {
        server.kill_clients().await;
        crowd.works().await;
        for _ in 0..20 {
            server.kill_statements().await;
        }
    }
    crowd.judge(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_killed_and_stopped() {
    let mut server = MariaDbServer::start();
    let crowd = Crowd::start(&server).await;
    for _ in 0..2 {
        server.restart();
        crowd.works().await;
    }
    server.stop();
    // A stopped server has no event that the test could wait for, so it sleeps for longer than a lease.
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.cont();
    crowd.works().await;
    crowd.judge(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_is_told_when_its_lease_ends_while_the_server_stands_still() {
    let server = MariaDbServer::start();
    let manager = manager(&server.url()).await;
    for kind in KINDS {
        let guard = request(&manager, "k", kind).ttl(Duration::from_secs(2)).acquire().await.unwrap();
        server.stop();
        let lost = guard.lost().await;
        assert!(matches!(lost, LockError::Lost { .. }), "{lost:?}");
        server.cont();
        request(&manager, "k", kind).wait(LONG).acquire().await.unwrap().release().await.unwrap();
    }
}
