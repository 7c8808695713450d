//! The health probe of a leader whose body cannot be stopped.

use std::sync::mpsc::channel;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use distlock::LockManager;
use distlock::axum::LeaderHealth;
use distlock::testing::TestStore;
use tower::ServiceExt as _;

async fn probe(router: &Router) -> StatusCode {
    let request = Request::get("/healthz").body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_blocks_after_its_term_fails_its_probe_until_it_returns() {
    let store = TestStore::new();
    let (manager, other): (LockManager, LockManager) = (store.process(), store.process());
    let candidate = manager.leader("office");
    let health = LeaderHealth::new(candidate.clone(), Duration::ZERO);
    let router = Router::new().route_service("/healthz", health);
    assert_eq!(probe(&router).await, StatusCode::OK);

    let (begun, mut terms) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, paused) = channel::<()>();
    let running = candidate.clone();
    let run = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut first = Some(paused);
        runtime.block_on(running.run(|lead| {
            drop(begun.send(lead));
            // The leader blocks in its first term, without an await.
            if let Some(paused) = first.take() {
                paused.recv().unwrap();
            }
            std::future::ready(())
        }))
    });
    let lead = terms.recv().await.unwrap();
    assert_eq!(probe(&router).await, StatusCode::OK);
    assert!(other.force_release("office").await.unwrap());
    assert!(lead.lost().await.is_lost());
    assert_eq!(probe(&router).await, StatusCode::SERVICE_UNAVAILABLE);
    go_on.send(()).unwrap();
    tokio::task::spawn_blocking(|| run.join().unwrap()).await.unwrap().unwrap();
    assert_eq!(probe(&router).await, StatusCode::OK);
}
