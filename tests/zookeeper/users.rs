//! Users and permissions.

use distlock::{LockError, LockManager};
use distlock_tests::{ZooKeeperServers, until_waiting};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

async fn refusal(url: &str) -> String {
    let error = match LockManager::connect(url).await {
        Err(error) => error,
        Ok(manager) => manager.lock("k").acquire().await.unwrap_err(),
    };
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains("s3cret") && !text.contains("wr0ng"), "{text}");
    error.to_string()
}

/// `user:base64(sha1(user:password))` of `app:s3cret`, as an administrator writes it into a list of permissions.
async fn digest(servers: &ZooKeeperServers) -> String {
    let client =
        Client::connector().with_auth("digest", b"app:s3cret").connect(&servers.address(0)).await.unwrap();
    let own = CreateMode::Ephemeral.with_acls(Acls::creator_all());
    client.create("/whoami", b"", &own).await.unwrap();
    let (acl, _) = client.get_acl("/whoami").await.unwrap();
    format!("{acl:?}").split('"').nth(3).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_needs_one_node_and_keeps_others_out_of_what_it_makes() {
    let servers = ZooKeeperServers::one();
    let admin =
        Client::connector().with_auth("digest", b"admin:4dmin").connect(&servers.address(0)).await.unwrap();
    let user = digest(&servers).await;
    let permissions = Permission::CREATE | Permission::READ;
    let acls =
        [Acl::new(permissions, AuthId::new("digest", &user)), Acl::new(Permission::ALL, AuthId::authed())];
    let open = CreateMode::Persistent.with_acls(Acls::anyone_read());
    admin.create("/app", b"", &open).await.unwrap();
    let root = CreateMode::Persistent.with_acls(Acls::new(&acls));
    admin.create("/locks-of-app", b"", &root).await.unwrap();

    let address = servers.address(0);
    let url = format!("zookeeper://app:s3cret@{address}/locks-of-app");
    let (one, other) = (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap());
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").fenced().acquire());
    until_waiting(&one, "k", 1).await;
    guard.extend(std::time::Duration::from_secs(60)).await.unwrap();
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    let held = one.lock("held").acquire().await.unwrap();
    assert!(other.force_release("held").await.unwrap());
    drop(held);
    servers.has_no_locks("/locks-of-app");

    let elsewhere = refusal(&format!("zookeeper://app:s3cret@{address}/app/locks")).await;
    assert!(
        elsewhere.contains("`cdrwa` on `/app/locks`") && elsewhere.contains("not authorized"),
        "{elsewhere}"
    );
    for stranger in ["", "app:wr0ng@", "else:s3cret@"] {
        let text = refusal(&format!("zookeeper://{stranger}{address}/locks-of-app")).await;
        assert!(text.contains("zookeeper://user:password@host/locks-of-app"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_user_everybody_may_use_the_locks() {
    let servers = ZooKeeperServers::one();
    let manager = LockManager::connect(&servers.url()).await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    let named = format!("zookeeper://app:s3cret@{}", servers.address(0));
    let named = LockManager::connect(&named).await.unwrap();
    named.lock("k").acquire().await.unwrap().release().await.unwrap();
}
