//! Two managers of one process are two clients.

use distlock_tests::{Backend, RedisServer, eventually};

use super::connect;

distlock_tests::suite![nested_sections_of_two_managers_exclude_each_other];

async fn nested_sections_of_two_managers_exclude_each_other(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_one_does_not_disturb_the_other() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = other.lock("k").acquire().await.unwrap();
    one.shutdown(std::time::Duration::ZERO).await;
    drop(one);
    guard.check().unwrap();
    guard.release().await.unwrap();
    other.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_has_at_most_two_connections_and_closes_them() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let manager = if number % 2 == 0 { one.clone() } else { other.clone() };
        tasks.spawn(async move {
            let key = format!("k{}", number % 10);
            let wait = std::time::Duration::from_secs(60);
            manager.lock(key).wait(wait).acquire().await.unwrap().release().await.unwrap();
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let connections = server.clients().len();
    assert!(
        (2..=4).contains(&connections),
        "{connections} connections for commands and pushes of two managers"
    );
    drop((one, other));
    eventually("their connections are closed", async || server.clients().is_empty()).await;
}
