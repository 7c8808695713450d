//! A server that was paused executes waiting commands before the timer runs that sets its clock.

use std::time::Duration;

use distlock_fixtures::MemcachedServer;

use crate::each_store::{LONG, manager};

const TTL: Duration = Duration::from_secs(1);
/// Longer than an item of this ttl lasts, and shorter than the silence after which a link is replaced.
const STOP: Duration = Duration::from_millis(2_200);
/// A lease that is requested this short time before the server resumes has nearly all of its time left then.
const BEFORE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_after_the_server_stood_still_is_given_to_nobody_else() {
    let server = MemcachedServer::start();
    let url = format!("{}?response_timeout=4s", server.url());
    let (one, other) = (manager(&url).await, manager(&url).await);
    for round in 0..10 {
        let key = format!("k{round}");
        server.stop();
        tokio::time::sleep(STOP - BEFORE).await;
        let asked = tokio::spawn(one.lock(&*key).ttl(TTL).no_renew().wait(LONG).acquire());
        tokio::time::sleep(BEFORE).await;
        server.cont();
        let guard = asked.await.unwrap().unwrap();
        while guard.is_held() {
            let next = other.lock(&*key).try_acquire().await.unwrap();
            assert!(next.is_none() || !guard.is_held(), "round {round}: {:?} are left", guard.remaining());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(guard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_kept_for_its_time_although_the_server_stood_still_when_it_was_released() {
    let server = MemcachedServer::start();
    let url = format!("{}?response_timeout=4s", server.url());
    let (one, other) = (manager(&url).await, manager(&url).await);
    let begun = std::time::Instant::now();
    let kept = STOP + TTL;
    let guard = one.lock("k").ttl(LONG).min_hold(kept).acquire().await.unwrap();
    server.stop();
    tokio::time::sleep(STOP - BEFORE).await;
    let released = tokio::spawn(guard.release());
    tokio::time::sleep(BEFORE).await;
    server.cont();
    released.await.unwrap().unwrap();
    let next = other.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(begun.elapsed() >= kept, "{:?}", begun.elapsed());
    next.release().await.unwrap();
}
