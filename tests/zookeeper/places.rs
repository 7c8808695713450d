//! The place of an owner in the queue of a lock.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use distlock::store::kit::connection::ConnectionOptions;
use distlock::store::{Acquire, AcquireReply, LockStore, Owner, Queue, Release, ReleaseReply, StoreEvents};
use distlock_tests::{ZooKeeperServers, eventually};
use distlock_zookeeper::ZooKeeperStore;
use tokio::sync::{mpsc, watch};
use zookeeper_client::{Acl, AuthId, Client, Permission};

use crate::zookeeper::{LONG, process};

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

    let store = Arc::new(ZooKeeperStore::new(&servers.url(), &ConnectionOptions::default()).unwrap());
    let (reports, _ignored) = mpsc::unbounded_channel();
    let (_wanted, is_wanted) = watch::channel(true);
    let events = StoreEvents::new("c".into(), reports, Arc::new(AtomicUsize::new(0)), is_wanted);
    let running = store.clone();
    let task = tokio::spawn(async move { running.run(events).await });
    eventually("it is connected", async || store.inspect("k").await.is_ok()).await;

    let owner = Owner::new("c", 1);
    let once = Acquire::new("k", &owner, LONG);
    let mut queued = once.clone();
    queued.queue = Some(Queue::new(LONG, LONG));
    permit(Permission::CREATE | Permission::READ | Permission::ADMIN).await;
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
