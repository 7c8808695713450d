//! Clients are killed or paused. Their locks end with their session, and not with their ttl.

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::{History, LockClient, Section, shared_clock};

use super::{Ensemble, judge, load};
use crate::load::turn;

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");
/// Much longer than a session.
const BOUND: Duration = Duration::from_secs(30);

/// One of the working processes is paused for longer than its session.
pub(super) async fn client_stopped<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(3);
    let mut load = load(&servers);
    load.fault();
    load.one_stands_still();
    load.works();
    judge(load, &servers, "a client SIGSTOPped for longer than its lease", "client_stopped").await;
}

pub(super) async fn killed_holder<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(1);
    let url = servers.url_with("2s");
    let mut killed = LockClient::connect(CLIENT, &url);
    assert_eq!(killed.ask("acquire k 3600000 1000").name(), "acquired");
    let other = LockManager::connect(&url).await.unwrap();
    killed.kill9();
    other.lock("k").wait(BOUND).acquire().await.unwrap().release().await.unwrap();
    servers.has_no_locks();
}

/// Another process gets the lock while the holder is paused. When the holder resumes, it no longer believes that it
/// holds the lock.
pub(super) async fn stopped_holder<E: Ensemble>() {
    let _turn = turn().await;
    let servers = E::start(1);
    let url = servers.url_with("2s");
    let mut stopped = LockClient::connect(CLIENT, &url);
    let other = LockManager::connect(&url).await.unwrap();
    let mut history = History::default();
    for _ in 0..3 {
        let acquired = stopped.ask("acquire k 3600000 30000 fenced");
        assert_eq!(acquired.name(), "acquired", "{acquired:?}");
        stopped.stop();
        let next = other.lock("k").fenced().wait(BOUND).acquire().await.unwrap();
        let entered = shared_clock();
        stopped.cont();
        let lost = stopped.next();
        assert_eq!(lost.name(), "lost", "{lost:?}");
        next.check().unwrap();
        let left = lost.time("at").min(acquired.time("until"));
        let fence = acquired.number("fence");
        history.add(Section { fence, ..Section::new("stopped", "k", acquired.time("at"), left) });
        let fence = next.fencing_token().map(|token| token.get());
        history.add(Section { fence, ..Section::new("other", "k", entered, shared_clock()) });
        next.release().await.unwrap();
        // The reply is that the lock was lost.
        assert_eq!(stopped.ask("release k").name(), "error");
    }
    let faults = history.faults();
    assert!(faults.is_empty(), "{faults:#?}");
    servers.has_no_locks();
}
