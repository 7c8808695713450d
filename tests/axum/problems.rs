//! The responses to a client after an error of a lock.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use distlock::store::{
    Acquire, AcquireReply, LockStore, Release, ReleaseReply, Renew, RenewReply, StoreError, StoredLock,
};
use distlock::{LockError, LockManager};
use http_body_util::BodyExt;
use serde_json::{Value, json};

async fn body(response: Response<Body>) -> Value {
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn a_busy_lock_is_a_conflict_that_says_when_the_lease_of_its_holder_ends() {
    let manager = LockManager::in_memory();
    let secret = "patient:ann@example.com";
    let holder = manager.lock(secret).ttl(Duration::from_millis(20_500)).no_renew().acquire().await.unwrap();
    let error = manager.lock(secret).no_wait().acquire().await.unwrap_err();
    let owner = holder.owner();
    let response = error.into_response();
    assert_eq!(response.status(), StatusCode::CONFLICT);
    let after: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    // The time is rounded up, and the machine may be slow.
    assert!((15..=21).contains(&after), "{after}");
    assert!(
        response.extensions().get::<LockError>().is_some_and(LockError::is_busy),
        "for a layer that logs"
    );
    let body = body(response).await;
    assert_eq!(
        body,
        json!({
            "type": "about:blank",
            "title": "Conflict",
            "status": 409,
            "detail": "The resource is in use. Try again later.",
            "code": "busy",
            "retry_after": after,
        })
    );
    let text = body.to_string();
    assert!(!text.contains(secret) && !text.contains(&owner), "{text}");
    holder.release().await.unwrap();
}

#[tokio::test]
async fn every_error_has_its_status_and_its_code() {
    let manager = LockManager::in_memory();
    let invalid = manager.lock("").acquire().await.unwrap_err();
    let options = manager.lock("k").max_holders(0).acquire().await.unwrap_err();
    manager.shutdown(Duration::ZERO).await;
    let closed = manager.lock("k").acquire().await.unwrap_err();
    let secret = "10.0.0.7:6379";
    for (error, status, code, retry) in [
        (LockError::busy("k"), 409, "busy", Some(1)),
        (LockError::lost("k"), 503, "outcome_unknown", None),
        (LockError::unavailable("k", secret), 503, "unavailable", Some(1)),
        (closed, 503, "closed", None),
        (invalid, 400, "invalid_key", None),
        (options, 500, "internal", None),
        (LockError::NotInitialized, 500, "internal", None),
    ] {
        let response = error.into_response();
        assert_eq!(response.status().as_u16(), status);
        let header = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header, retry.map(|seconds: u64| seconds.to_string()), "{code}");
        let body = body(response).await;
        assert_eq!((body["status"].as_u64(), body["code"].as_str()), (Some(status.into()), Some(code)));
        assert_eq!(body["retry_after"].as_u64(), retry);
        assert!(!body.to_string().contains(secret), "{body}");
    }
}

/// Grants the lock `k`. The reply to every other command is missing.
#[derive(Debug)]
struct LosesReplies;

fn no_reply<T>() -> Result<T, StoreError> {
    Err(StoreError::unknown("no reply"))
}

impl LockStore for LosesReplies {
    fn describe(&self) -> String {
        "a store that loses its replies".into()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        if &*request.key == "k" { Ok(AcquireReply::Acquired { fence: None }) } else { no_reply() }
    }

    async fn renew(&self, _request: &Renew) -> Result<RenewReply, StoreError> {
        no_reply()
    }

    async fn release(&self, _request: &Release) -> Result<ReleaseReply, StoreError> {
        no_reply()
    }

    async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
        no_reply()
    }

    async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
        no_reply()
    }
}

/// A handler that ends with `release().await?` may have done its work by then, so its client must not retry blindly.
#[tokio::test]
async fn after_a_release_that_was_not_confirmed_the_outcome_is_unknown() {
    let manager = LockManager::builder().store(LosesReplies).connect().await.unwrap();
    let guard = manager.lock("k").acquire().await.unwrap();
    let extended = guard.extend(Duration::from_secs(20)).await.unwrap_err();
    let released = guard.release().await.unwrap_err();
    let forced = manager.force_release("k").await.unwrap_err();
    let acquired = manager.lock("other").no_wait().acquire().await.unwrap_err();
    for (error, code, retry) in [
        (extended, "outcome_unknown", None),
        (released, "outcome_unknown", None),
        (forced, "outcome_unknown", None),
        (acquired, "unavailable", Some(1)),
    ] {
        assert!(error.is_unavailable(), "{error}");
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers().contains_key("retry-after"), retry.is_some(), "{code}");
        let body = body(response).await;
        assert_eq!((body["code"].as_str(), body["retry_after"].as_u64()), (Some(code), retry), "{body}");
    }
}
