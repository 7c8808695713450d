//! Requests that a client repeats, and their responses.

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use distlock::axum::{IdempotencyKey, Replayed};
use distlock::fence::Outcome;
use distlock::{LockError, LockManager, distributed_lock};
use http_body_util::BodyExt;
use serde_json::Value;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tower::ServiceExt;

#[derive(Clone)]
struct Shop {
    locks: LockManager,
    pool: SqlitePool,
}

impl Shop {
    /// One connection only, because the database is in memory.
    async fn open() -> Self {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
        sqlx::raw_sql("CREATE TABLE gift (name TEXT)").execute(&pool).await.unwrap();
        distlock::fence::migrate(&pool).await.unwrap();
        Shop { locks: LockManager::in_memory(), pool }
    }

    fn service(&self) -> Router {
        Router::new().route("/gifts", post(give)).with_state(self.clone())
    }

    async fn gifts(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM gift").fetch_one(&self.pool).await.unwrap()
    }

    #[distributed_lock(
        key = "gift:<request>",
        wait = "0s",
        manager = self.locks,
        transaction = tx in self.pool,
        once = "24h",
        once_of = gift,
        once_outcome = outcome
    )]
    async fn give(
        &self,
        request: &IdempotencyKey,
        gift: &str,
        outcome: &mut Outcome,
    ) -> Result<String, LockError> {
        sqlx::query("INSERT INTO gift VALUES ($1)").bind(gift).execute(&mut **tx).await.unwrap();
        Ok(format!("{gift} for {request}"))
    }
}

async fn give(
    State(shop): State<Shop>,
    key: IdempotencyKey,
    Json(gift): Json<String>,
) -> Result<(Replayed, Json<String>), LockError> {
    let mut outcome = Outcome::default();
    let receipt = shop.give(&key, &gift, &mut outcome).await?;
    Ok((Replayed(outcome), Json(receipt)))
}

async fn ask(shop: &Shop, keys: &[&str], gift: &str) -> Response<Body> {
    let mut request = Request::post("/gifts").header("content-type", "application/json");
    for key in keys {
        request = request.header("idempotency-key", *key);
    }
    let body = Body::from(Value::from(gift).to_string());
    shop.service().oneshot(request.body(body).unwrap()).await.unwrap()
}

async fn body(response: Response<Body>) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn a_repeated_request_is_answered_as_the_first_one() {
    let shop = Shop::open().await;
    let first = ask(&shop, &["one"], "a pen").await;
    assert_eq!(first.status(), StatusCode::OK);
    assert!(!first.headers().contains_key("idempotent-replayed"));
    assert_eq!(body(first).await, "a pen for one");
    // The same key, in the form of the header's draft.
    let second = ask(&shop, &["\"one\""], "a pen").await;
    assert_eq!(second.status(), StatusCode::OK);
    assert_eq!(second.headers()["idempotent-replayed"], "true");
    assert_eq!(body(second).await, "a pen for one");
    assert_eq!(shop.gifts().await, 1);
    let other = ask(&shop, &["two"], "a pen").await;
    assert!(!other.headers().contains_key("idempotent-replayed"));
    assert_eq!(shop.gifts().await, 2);
}

#[tokio::test]
async fn another_request_with_the_same_key_is_unprocessable() {
    let shop = Shop::open().await;
    ask(&shop, &["one"], "a pen").await;
    let other = ask(&shop, &["one"], "a car").await;
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(body(other).await["code"], "other_arguments");
    assert_eq!(shop.gifts().await, 1);
}

#[tokio::test]
async fn a_request_that_is_carried_out_is_a_conflict() {
    let shop = Shop::open().await;
    let first = shop.locks.lock("gift:one").acquire().await.unwrap();
    let second = ask(&shop, &["one"], "a pen").await;
    assert_eq!(second.status(), StatusCode::CONFLICT);
    assert!(second.headers().contains_key("retry-after"));
    first.release().await.unwrap();
    assert_eq!(ask(&shop, &["one"], "a pen").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_without_a_key_is_refused() {
    let shop = Shop::open().await;
    let long = "k".repeat(256);
    let wrong: [&[&str]; 9] = [
        &[""],
        &["\"\""],
        &["\"open"],
        &["\"a\"b\""],
        &["\"a\\n\""],
        &["two words"],
        &["one", "two"],
        &["\"\\\""],
        &[&long],
    ];
    let missing = ask(&shop, &[], "a pen").await;
    assert_eq!(missing.status(), StatusCode::BAD_REQUEST);
    assert_eq!(missing.headers()["content-type"], "application/problem+json");
    assert_eq!(body(missing).await["code"], "idempotency_key_missing");
    for keys in wrong {
        let malformed = ask(&shop, keys, "a pen").await;
        assert_eq!(malformed.status(), StatusCode::BAD_REQUEST, "{keys:?}");
        assert_eq!(body(malformed).await["code"], "idempotency_key_malformed", "{keys:?}");
    }
    assert_eq!(shop.gifts().await, 0);
    let strange = ask(&shop, &["\"a\\\"b\\\\c\""], "a pen").await;
    assert_eq!(body(strange).await, "a pen for a\"b\\c");
    // A structured field with parameters is refused, because their meaning is unknown.
    let extended = ask(&shop, &["\"one\";version=2"], "a pen").await;
    assert_eq!(body(extended).await, "a pen for one");
}
