//! A web service on axum: handlers under locks, errors as responses, a layer that serves one request of each client at
//! a time, readiness, and a shutdown that leaves no lock behind.
//!
//! ```text
//! cargo run --release --example axum_service                              embedded, nothing to install
//! cargo run --release --example axum_service -- --url redis://127.0.0.1/  through Redis
//! curl -i -X POST http://127.0.0.1:3000/accounts/7/points/10
//! ```
//!
//! Look at `add_points` (a handler under a lock), `router` (the layer), `ready` (for a load balancer), and at `serve`:
//! at SIGTERM the server accepts no more requests, those that run end, then the manager is shut down, and no lock is
//! left.

#![allow(clippy::print_stdout)]

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, request::Parts},
    routing::{get, post},
};
use clap::Parser;
use distlock::{LockError, LockManager, ShutdownReport, axum::OneAtATime, distributed_lock};
use distlock_examples::{AnyError, Store};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// How long running requests may take when the service ends; `terminationGracePeriodSeconds` has to be longer.
const GRACE: Duration = Duration::from_secs(10);
/// How long sections may take that still run after that.
const LAST_GRACE: Duration = Duration::from_secs(1);

/// A web service whose handlers run under locks
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// How long the work of a request takes, in milliseconds
    #[arg(long, default_value_t = 2)]
    work: u64,
}

#[derive(Clone)]
struct App {
    locks: LockManager,
    /// How long the work of a request takes.
    work: Duration,
    /// Stands for a table in a database.
    accounts: Arc<Mutex<HashMap<u64, i64>>>,
}

impl App {
    fn new(locks: LockManager, work: Duration) -> Self {
        App { locks, work, accounts: Arc::default() }
    }

    fn points(&self, account: u64) -> i64 {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).get(&account).copied().unwrap_or(0)
    }

    fn set_points(&self, account: u64, points: i64) {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).insert(account, points);
    }
}

/// One at a time for each account, on all machines. `LockError` is a response: 409 with `Retry-After`, or 503.
#[distributed_lock(key = "account:<account>", ttl = "10s", wait = "2s", warn_wait = "1s", manager = app.locks)]
async fn add_points(
    State(app): State<App>,
    Path((account, points)): Path<(u64, i64)>,
) -> Result<String, LockError> {
    let before = app.points(account);
    // Without the lock, other requests would read the same number here.
    tokio::time::sleep(app.work).await;
    app.set_points(account, before + points);
    Ok(format!("{}\n", before + points))
}

/// For a load balancer: it sends no requests to this instance while the store of the locks is unreachable.
async fn ready(State(app): State<App>) -> StatusCode {
    if app.locks.health().is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Requests of one client are served one after the other, for all paths.
fn client(request: &Parts) -> Option<String> {
    let client = request.headers.get("x-client")?.to_str().ok()?;
    Some(format!("client:{client}"))
}

fn router(app: App) -> Router {
    let one_at_a_time = OneAtATime::new(app.locks.clone(), client)
        .with(|request| request.wait(Duration::from_secs(5)).label("client"));
    Router::new()
        .route("/accounts/{account}/points/{points}", post(add_points))
        .layer(one_at_a_time)
        .route("/readyz", get(ready))
        .with_state(app)
}

/// Serves until `stop`. First the server ends, after its last request. Then the manager ends, after the last release.
async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<ShutdownReport> {
    let locks = app.locks.clone();
    let (stopping, stopped) = oneshot::channel();
    let server = axum::serve(listener, router(app)).with_graceful_shutdown(async {
        stop.await;
        // Fails only if the server has ended for another reason.
        stopping.send(()).ok();
    });
    let overdue = async {
        drop(stopped.await);
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = server.into_future() => served?,
        // Requests that take longer lose their locks below, which stops them.
        () = overdue => {}
    }
    Ok(locks.shutdown(LAST_GRACE).await)
}

/// SIGTERM, as from Kubernetes, systemd and `docker stop`, or Ctrl-C.
async fn told_to_end() {
    let Ok(mut term) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let Options { store, listen, work } = Options::parse();
    let locks = LockManager::connect(&store.url).await?;
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let report = serve(listener, App::new(locks, Duration::from_millis(work)), told_to_end()).await?;
    println!("{report:?}");
    match report.lost + report.ignored + report.unconfirmed {
        0 => Ok(()),
        left => Err(format!("{left} locks were left behind: others wait for the end of their leases").into()),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::Request;
    use distlock::testing::{Fault, eventually, fail_next};
    use http_body_util::Empty;
    use hyper_util::{client::legacy::Client, rt::TokioExecutor};
    use tokio::task::JoinSet;

    use super::*;

    async fn post(url: String, key: Option<&str>) -> axum::http::response::Parts {
        let request = key.into_iter().fold(Request::post(url), |it, key| it.header("x-client", key));
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        Client::builder(TokioExecutor::new()).build_http().request(request).await.unwrap().into_parts().0
    }

    #[tokio::test]
    async fn no_update_is_lost_errors_are_responses_and_the_end_leaves_no_lock() {
        let app = App::new(LockManager::in_memory(), Duration::from_millis(2));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/accounts/7/points/1", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, app.clone(), async { drop(stopped.await) }));

        let mut posts = JoinSet::new();
        for _ in 0..20 {
            posts.spawn(post(url.clone(), None));
        }
        for response in posts.join_all().await {
            assert_eq!(response.status, StatusCode::OK);
        }
        assert_eq!(app.points(7), 20);

        fail_next(&app.locks, "account:7", Fault::Busy);
        let busy = post(url.clone(), None).await;
        assert_eq!(
            (busy.status, &busy.headers["retry-after"]),
            (StatusCode::CONFLICT, &"1".parse().unwrap())
        );
        fail_next(&app.locks, "client:a", Fault::Unavailable);
        assert_eq!(post(url.clone(), Some("a")).await.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(post(url.clone(), Some("a")).await.status, StatusCode::OK);

        // One request runs when the service is asked to end.
        let holder = app.locks.lock("account:7").acquire().await.unwrap();
        let last = tokio::spawn(post(url, None));
        let waits =
            async || app.locks.inspect("account:7").await.unwrap().is_some_and(|it| it.waiters_here == 1);
        eventually("the last request waits", waits).await;
        stop.send(()).unwrap();
        holder.release().await.unwrap();
        assert_eq!(last.await.unwrap().status, StatusCode::OK);
        let report = serving.await.unwrap().unwrap();
        assert_eq!((report.held, report.lost, report.unconfirmed), (0, 0, 0));
        assert_eq!(app.points(7), 22);
    }
}
