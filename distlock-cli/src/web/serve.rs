//! What is served: the page, its events, and the release of a lock.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use distlock::LockError;
use futures_util::stream::{Stream, unfold};

use super::feed::Feed;
use super::guard::{Guard, Refusal, protect};

/// A key is at most 1 KiB long.
const LONGEST_BODY: usize = 16 << 10;

#[derive(Clone, Debug)]
struct Server {
    feed: Arc<Feed>,
    guard: Arc<Guard>,
}

pub(super) fn router(feed: Arc<Feed>, guard: Guard) -> Router {
    let server = Server { feed, guard: Arc::new(guard) };
    let file =
        |kind: &'static str, text: &'static str| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page.html")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page.js")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page.css")))
        .route("/events", get(events))
        .route("/release", post(release))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(from_fn_with_state(server.clone(), check))
        .with_state(server)
}

async fn check(State(server): State<Server>, request: Request, next: Next) -> Response {
    protect(match server.guard.check_host(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    })
}

async fn events(
    State(Server { feed, guard }): State<Server>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    guard.check_read(&headers)?;
    let viewer =
        feed.viewer().ok_or((StatusCode::SERVICE_UNAVAILABLE, "too many look at the locks already"))?;
    let events = unfold(viewer, async |mut viewer| {
        let text = viewer.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(&*text)), viewer))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

async fn release(
    State(Server { feed, guard }): State<Server>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<&'static str, (StatusCode, String)> {
    guard.check_write(&headers).map_err(|(status, why)| (status, why.to_owned()))?;
    let told: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let key = told.as_ref().and_then(|told| told.get("key")?.as_str());
    let key = key.ok_or_else(|| (StatusCode::BAD_REQUEST, "which key?".to_owned()))?;
    match feed.release(key).await {
        Ok(true) => Ok("released"),
        Ok(false) => Err((StatusCode::NOT_FOUND, "nobody held it".to_owned())),
        Err(error @ LockError::InvalidKey { .. }) => Err((StatusCode::BAD_REQUEST, error.to_string())),
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}
