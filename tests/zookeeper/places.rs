//! The place of an owner in the queue of a lock.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use distlock::store::kit::connection::ConnectionOptions;
use distlock::store::{Acquire, AcquireReply, LockStore, Owner, Queue, Release, ReleaseReply, StoreEvents};
use distlock_tests::{ZooKeeperServers, eventually};
use distlock_zookeeper::ZooKeeperStore;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::zookeeper::{LONG, process};

/// The store itself, and the task that keeps its session.
async fn store(servers: &ZooKeeperServers) -> (Arc<ZooKeeperStore>, JoinHandle<()>) {
    let url = format!("{}?session_timeout=3600s", servers.url());
    let store = Arc::new(ZooKeeperStore::new(&url, &ConnectionOptions::default()).unwrap());
    let (reports, _ignored) = mpsc::unbounded_channel();
    let (_wanted, is_wanted) = watch::channel(true);
    let events = StoreEvents::new("c".into(), reports, Arc::new(AtomicUsize::new(0)), is_wanted);
    let running = store.clone();
    let task = tokio::spawn(async move { running.run(events).await });
    eventually("it is connected", async || store.inspect("k").await.is_ok()).await;
    (store, task)
}

/// A request that does not queue and finds the key taken deletes its place immediately. If that fails, the place still
/// exists. The owner that asks again then uses this place, and not a second one, which would keep the key taken after
/// the release.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_has_one_place_although_it_could_not_leave_it() {
    let servers = ZooKeeperServers::one();
    let holder = process(&servers, "3600s").await;
    let guard = holder.lock("k").ttl(LONG).acquire().await.unwrap();
    let held = servers.places("/distlock");
    let lock = held[0].rsplit_once('/').unwrap().0;
    let admin = Client::connect(&servers.address(0)).await.unwrap();
    let permit = async |permissions| {
        admin.set_acl(lock, &[Acl::new(permissions, AuthId::anyone())], None).await.unwrap();
    };

    let (store, task) = store(&servers).await;
    let owner = Owner::new("c", 1);
    let once = Acquire::new("k", &owner, LONG);
    let mut queued = once.clone();
    queued.queue = Some(Queue::new(LONG, LONG));
    permit(Permission::CREATE | Permission::READ | Permission::WRITE | Permission::ADMIN).await;
    store.acquire(&once).await.unwrap_err();
    permit(Permission::ALL).await;
    let busy = store.acquire(&queued).await.unwrap();
    assert!(matches!(busy, AcquireReply::Busy(_)), "{busy:?}");
    assert_eq!(servers.places("/distlock").len(), 2, "{:?}", servers.places("/distlock"));

    guard.release().await.unwrap();
    let held = store.acquire(&queued).await.unwrap();
    assert!(matches!(held, AcquireReply::AlreadyHeld { .. }), "{held:?}");
    let released = store.release(&Release::new("k", &owner)).await.unwrap();
    assert_eq!(released, ReleaseReply::Released);
    servers.has_no_locks("/distlock");
    task.abort();
}

/// Also if a former leader's session, which has not ended yet, has left a text.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_leader_has_published_ends_with_its_term() {
    let servers = ZooKeeperServers::one();
    let manager = process(&servers, "3600s").await;
    let texts =
        || servers.ephemerals().into_values().flatten().filter(|path| path.contains("/texts/")).count();
    let admin = Client::connect(&servers.address(0)).await.unwrap();
    for office in ["one", "two", "one"] {
        let candidate = manager.leader(office).value("10.0.0.7:80");
        candidate.run(async |_| assert_eq!(texts(), 1)).await.unwrap();
        assert_eq!(texts(), 0);
    }
    let left = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    admin.create("/distlock/texts/one", b"dl1:former:1\n10.0.0.6:80", &left).await.unwrap();
    let candidate = manager.leader("one").value("10.0.0.7:80");
    let shown = async || manager.inspect("one").await.unwrap().unwrap().holders[0].value.clone();
    candidate.run(async |_| assert_eq!(shown().await.as_deref(), Some("10.0.0.7:80"))).await.unwrap();
    assert_eq!(texts(), 0);
}

/// One of them belongs to a former session that the ensemble has not ended yet. If only that one were deleted, the
/// other one would stay as long as its process.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_the_name_of_an_owner_ends_its_places_of_all_sessions() {
    let servers = ZooKeeperServers::one();
    let (store, task) = store(&servers).await;
    let admin = Client::connect(&servers.address(0)).await.unwrap();
    let lock = "/distlock/locks/k";
    admin.mkdir(lock, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let place = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let owner = Owner::new("c", 1);
    for (of, session) in [(owner.as_str(), "1a"), (owner.as_str(), "1b"), ("dl1:other:1", "1a")] {
        admin.create(&format!("{lock}/{of}-{session}-"), b"", &place).await.unwrap();
    }
    let released = store.release(&Release::new("k", &owner)).await.unwrap();
    assert_eq!(released, ReleaseReply::Released);
    let left = servers.places("/distlock");
    assert!(left.len() == 1 && left[0].contains("other"), "{left:?}");
    assert_eq!(store.release(&Release::new("k", &owner)).await.unwrap(), ReleaseReply::NotHeld);
    task.abort();
}

/// The error of a later command says that the command did nothing. The place exists nevertheless, and must be released.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_does_not_hide_a_place_that_was_created_before() {
    let servers = ZooKeeperServers::one();
    let (store, task) = store(&servers).await;
    let mut request = Acquire::new("k", &Owner::new("c", 1), LONG);
    request.fences = 1;
    store.acquire(&request).await.unwrap();
    let admin = Client::connect(&servers.address(0)).await.unwrap();
    // The command that confirms the place writes to this node.
    for node in admin.list_children("/distlock/sessions").await.unwrap() {
        admin.delete(&format!("/distlock/sessions/{node}"), None).await.unwrap();
    }
    let error = store.acquire(&request).await.unwrap_err();
    assert_eq!(format!("{:?}", error.kind), "Unknown", "{error}");
    task.abort();
}
