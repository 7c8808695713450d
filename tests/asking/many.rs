//! Many locks, many clients, many questions.

use std::time::{Duration, Instant};

use distlock_tests::RedisServer;

use super::{all, client};

/// One client with far more locks than an answer has room for: page after page, in order, none twice.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_locks_of_one_client_come_page_by_page() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let keys: Vec<String> = (0..10_000).map(|number| format!("order:{number:05}")).collect();
    let guards = one.lock_all(&keys).ttl(Duration::from_secs(600)).acquire().await.unwrap();
    let mut locks = eye.list("*");
    let mut seen = Vec::new();
    while let Some(entry) = locks.next().await {
        seen.push(entry.unwrap().key);
    }
    assert!(locks.unanswered().is_empty());
    assert_eq!(seen, keys);
    let (some, _) = all(eye.list("order:0999?")).await.unwrap();
    assert_eq!(some.len(), 10);
    guards.release().await.unwrap();
}

/// A list that nobody reads on keeps neither the asked nor the asking busy, and its end frees everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_not_read_waits_and_may_be_dropped() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let keys: Vec<String> = (0..3_000).map(|number| format!("order:{number:05}")).collect();
    let _guards = one.lock_all(&keys).ttl(Duration::from_secs(600)).acquire().await.unwrap();
    let published = || server.calls("publish");
    let mut locks = eye.list("*");
    assert_eq!(locks.next().await.unwrap().unwrap().key, keys[0]);
    let before = published();
    // What is ahead is bounded: no further page is asked for while nobody reads.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(published() - before <= 2, "{} messages", published() - before);
    drop(locks);
    assert_eq!(all(eye.list("*")).await.unwrap().0.len(), 3_000);
}

/// However fast it is asked, a client answers so many times in a second, and serves its locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_be_flooded_with_questions() {
    let server = RedisServer::start();
    let one = client(&server.url(), "one").await;
    let guard = one.lock("k").acquire().await.unwrap();
    let id = guard.owner().split(':').nth(1).unwrap().to_owned();
    let mut flood = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let (start, calls) = (Instant::now(), server.calls("publish"));
    for number in 0..3_000 {
        let question = format!("i mallory.0 {number} 65536 l *");
        redis::cmd("PUBLISH").arg(format!("dl1:c:{id}")).arg(question).exec(&mut flood).unwrap();
    }
    guard.release().await.unwrap();
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
    let answers = server.calls("publish") - calls - 3_000;
    let bound = 20 + start.elapsed().as_secs() * 20 + 20;
    assert!((1..=bound).contains(&answers), "{answers} answers");
}
