//! The service handles one request at a time for each key, for any number of requests.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use distlock::LockManager;
use distlock::axum::OneAtATime;
use distlock::testing::{Fault, Sections, assert_held_here, eventually, fail_next, lose, planned};
use tokio::sync::Semaphore;
use tower::{Layer, ServiceExt, service_fn};

fn by_header(manager: &LockManager) -> OneAtATime {
    let key = |parts: &axum::http::request::Parts| {
        Some(format!("payment:{}", parts.headers.get("x-account")?.to_str().ok()?))
    };
    OneAtATime::new(manager.clone(), key)
}

fn payment(key: Option<&str>) -> Request<Body> {
    let request = Request::post("/payments");
    let request = key.into_iter().fold(request, |request, key| request.header("x-account", key));
    request.body(Body::empty()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_the_same_key_are_served_one_after_the_other() {
    let manager = LockManager::in_memory();
    let sections = Sections::of([&manager]);
    let pay = async || {
        assert_held_here("payment:a");
        tokio::task::yield_now().await;
        "paid"
    };
    let router: Router = Router::new().route("/payments", post(pay)).layer(by_header(&manager));
    let served: Vec<_> = (0..20).map(|_| tokio::spawn(router.clone().oneshot(payment(Some("a"))))).collect();
    for served in served {
        assert_eq!(served.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    let count = sections.count("payment:a");
    assert_eq!((count.begun, count.most_at_once, count.running), (20, 1, 0));
}

#[tokio::test]
async fn other_keys_and_requests_without_one_do_not_wait() {
    let manager = LockManager::in_memory();
    let gate = Arc::new(Semaphore::new(0));
    let closed = gate.clone();
    let pay = async move |request: Request<Body>| {
        if request.headers().get("x-account").is_some_and(|key| key == "slow") {
            drop(closed.acquire().await);
        }
        "paid"
    };
    let router: Router = Router::new().route("/payments", post(pay)).layer(by_header(&manager));
    let slow = tokio::spawn(router.clone().oneshot(payment(Some("slow"))));
    eventually("the slow one is at it", async || manager.inspect("payment:slow").await.unwrap().is_some())
        .await;
    for key in [Some("quick"), None, None] {
        assert_eq!(router.clone().oneshot(payment(key)).await.unwrap().status(), StatusCode::OK);
    }
    gate.close();
    assert_eq!(slow.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn errors_of_the_lock_are_responses_and_the_service_is_not_called() {
    let manager = LockManager::in_memory();
    let never = async || -> &'static str { panic!("nothing runs unlocked") };
    let router: Router = Router::new().route("/payments", post(never)).layer(by_header(&manager));
    for (fault, status) in [(Fault::Busy, 409), (Fault::Unavailable, 503), (Fault::Lost, 503)] {
        fail_next(&manager, "payment:a", fault);
        let response = router.clone().oneshot(payment(Some("a"))).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{fault:?}");
    }
    let response = router.oneshot(payment(Some(&"x".repeat(2_000)))).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST, "the key is too long");
    assert_eq!(planned(&manager), 0);
}

#[tokio::test]
async fn options_apply_to_the_lock() {
    let manager = LockManager::in_memory();
    let holder = manager.lock("payment:a").acquire().await.unwrap();
    let once = by_header(&manager).with(|request| request.no_wait());
    let router: Router = Router::new().route("/payments", post(async || "paid")).layer(once);
    assert_eq!(router.oneshot(payment(Some("a"))).await.unwrap().status(), StatusCode::CONFLICT);
    holder.release().await.unwrap();
}

/// Two layers of one program have two series of metrics.
#[tokio::test]
async fn the_label_is_the_function_that_makes_the_key() {
    let manager = LockManager::in_memory();
    for (layer, label) in [
        (by_header(&manager), concat!(module_path!(), "::by_header")),
        (by_header(&manager).with(|request| request.label("payment")), "payment"),
    ] {
        let of = manager.clone();
        let handler = async move || {
            let lock = of.inspect("payment:a").await.unwrap().expect("it is held");
            lock.holders[0].label.clone().unwrap()
        };
        let router: Router = Router::new().route("/payments", post(handler)).layer(layer);
        let response = router.oneshot(payment(Some("a"))).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        assert_eq!(body, label);
    }
}

#[tokio::test]
async fn a_loss_stops_the_service() {
    let manager = LockManager::in_memory();
    let router: Router =
        Router::new().route("/payments", post(std::future::pending::<()>)).layer(by_header(&manager));
    let served = router.oneshot(payment(Some("a")));
    let lost = eventually("the service holds the lock", async || lose(&manager, "payment:a"));
    let (response, _) = tokio::join!(served, lost);
    assert_eq!(response.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
}

/// This happens when a client disconnects, or a time-out above the layer ends the request.
#[tokio::test]
async fn a_request_that_is_dropped_leaves_no_lock() {
    let manager = LockManager::in_memory();
    let router: Router =
        Router::new().route("/payments", post(std::future::pending::<()>)).layer(by_header(&manager));
    let served = router.oneshot(payment(Some("a")));
    assert!(tokio::time::timeout(Duration::from_millis(20), served).await.is_err());
    eventually("the lock is free", async || manager.inspect("payment:a").await.unwrap().is_none()).await;
}

/// The layer calls the same service that it has polled until ready.
#[tokio::test]
async fn any_service_of_tower_will_do() {
    let manager = LockManager::in_memory();
    let limited = tower::limit::ConcurrencyLimit::new(
        service_fn(async |request: Request<u32>| Ok::<_, Infallible>(format!("{}", request.into_body() + 1))),
        1,
    );
    let layer = OneAtATime::new(manager, |_| Some("counter"));
    let mut service = layer.layer(limited);
    for number in 0..3 {
        let request = Request::new(number);
        let response = tower::Service::call(service.ready().await.unwrap(), request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}
