//! Users, permissions, TLS.

use distlock::{LockError, LockManager};
use distlock_tests::EtcdServers;

async fn refusal(url: &str) -> String {
    let error = LockManager::connect(url).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_one_role_for_one_range_of_keys() {
    let mut servers = EtcdServers::one();
    servers.ask_for_users("app", "s3cret", "app/locks/");
    let address = servers.address(0);
    let url = format!("etcd://app:s3cret@{address}/app/locks");
    let (one, other) = (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap());
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").fenced().acquire());
    distlock_tests::until_waiting(&one, "k", 1).await;
    guard.extend(std::time::Duration::from_secs(60)).await.unwrap();
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    let kept = one.lock("kept").min_hold(std::time::Duration::from_secs(1)).acquire().await.unwrap();
    kept.release().await.unwrap();
    assert!(other.force_release("kept").await.unwrap());
    // Enough that some are sent in batches.
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..30 {
        asking.spawn(one.lock(format!("k{number}")).acquire());
    }
    while let Some(guard) = asking.join_next().await {
        guard.unwrap().unwrap().release().await.unwrap();
    }
    servers.has_no_locks("app/locks/");

    let elsewhere = refusal(&format!("etcd://app:s3cret@{address}/other")).await;
    assert!(elsewhere.contains("readwrite --prefix=true 'other/'"), "{elsewhere}");
    assert!(elsewhere.contains("permission denied"), "{elsewhere}");
    let nobody = refusal(&format!("etcd://{address}/app/locks")).await;
    assert!(nobody.contains("etcd://user:password@host"), "{nobody}");
    let wrong = refusal(&format!("etcd://app:wr0ng@{address}/app/locks")).await;
    assert!(wrong.contains("invalid user ID or password"), "{wrong}");
}

/// After its restart, the server has forgotten the login. The next connection logs in again.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_repeated_when_the_server_has_forgotten_it() {
    let mut servers = EtcdServers::one();
    servers.ask_for_users("app", "s3cret", "distlock/");
    let url = format!("etcd://app:s3cret@{}", servers.address(0));
    let manager = LockManager::connect(&url).await.unwrap();
    let guard = manager.lock("k").acquire().await.unwrap();
    servers.restart(0);
    let wait = std::time::Duration::from_secs(30);
    manager.lock("other").wait(wait).acquire().await.unwrap().release().await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
    servers.has_no_locks("distlock/");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_nobody_asks_for_is_no_obstacle() {
    let servers = EtcdServers::one();
    let manager = LockManager::connect(&format!("etcd://app:s3cret@{}", servers.address(0))).await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}
