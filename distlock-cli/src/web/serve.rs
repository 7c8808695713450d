//! The HTTP service: the page, its events, and the release of a lock.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream::{Stream, unfold};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::feed::Feed;
use super::guard::{Guard, Refusal, protect};
use super::unread::FailsUnread;
use crate::take::Taken;

/// A key is at most 1 KiB long.
const LONGEST_BODY: usize = 16 << 10;
/// The time limit from the beginning of a connection, or the end of a response, to the end of the next request's
/// headers.
const LONGEST_HEADERS: Duration = Duration::from_secs(5);
/// The time limit from the headers of a request to the beginning of the response. A release may wait while the store is
/// unreachable.
const LONGEST_ANSWER: Duration = Duration::from_secs(30);
/// A connection is closed if its client takes in none of a response for this long.
const LONGEST_WRITE: Duration = Duration::from_secs(30);
/// The largest number of open connections, because the store needs file descriptors, too.
const MOST_CONNECTIONS: usize = 128;
/// The pause after an error of `accept`, for example if this process has no free file descriptor.
const REST: Duration = Duration::from_millis(200);

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

/// Serves without end. A connection is closed if its client sends no complete request in time, or does not read.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => TokioIo::new(FailsUnread::after(LONGEST_WRITE, stream)),
            Err(_) => {
                sleep(REST).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut connections = Builder::new(TokioExecutor::new()).http1_only();
            connections.http1().timer(TokioTimer::new()).header_read_timeout(LONGEST_HEADERS);
            // Only the peer causes errors here.
            drop(connections.serve_connection(stream, service).await);
            drop(place);
        });
    }
}

async fn check(State(server): State<Server>, request: Request, next: Next) -> Response {
    let allowed = server.guard.check_host(&request).and_then(|()| match request.uri().path() {
        // Other sites may link to the page. It causes no work for the store, and cannot be framed.
        "/" => Ok(()),
        _ => server.guard.check_site(request.headers()),
    });
    protect(match allowed {
        // A client that sends an endless body loses its place after this time. The limit does not end streams of
        // events.
        Ok(()) => match timeout(LONGEST_ANSWER, next.run(request)).await {
            Ok(response) => response,
            Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
        },
        Err(refusal) => refusal.into_response(),
    })
}

async fn events(
    State(Server { feed, guard }): State<Server>,
    Query(mut wanted): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    guard.check_read(&headers)?;
    let filter = wanted.remove("filter").unwrap_or_default();
    let viewer = feed
        .viewer(filter)
        .ok_or((StatusCode::SERVICE_UNAVAILABLE, "too many clients already read the locks"))?;
    let events = unfold(viewer, async |mut viewer| {
        let text = viewer.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(text)), viewer))
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
    let owners = told.as_ref().and_then(|told| told.get("owners")?.as_array());
    let owners: Option<Vec<String>> =
        owners.and_then(|owners| owners.iter().map(|owner| owner.as_str().map(str::to_owned)).collect());
    let owners = owners.filter(|owners| !owners.is_empty());
    let owners = owners.ok_or_else(|| (StatusCode::BAD_REQUEST, "from which holders?".to_owned()))?;
    match feed.release(key.to_owned(), owners).await {
        Ok(Taken::From(_)) => Ok("released"),
        Ok(Taken::HeldByAnother(_)) => {
            Err((StatusCode::CONFLICT, "it now has another holder, which keeps it".to_owned()))
        }
        Ok(Taken::NotHeld) => {
            Err((StatusCode::NOT_FOUND, "this page shows no holder of it, or it has no holder".to_owned()))
        }
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
    }
}
