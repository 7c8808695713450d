//! How a program that locks is tested: see the tests at the end of the file.
//!
//! ```text
//! cargo test --example testing
//! ```
//!
//! The program: a service with coupons, each of which is redeemed once. In `Cargo.toml`, next to the dependency:
//!
//! ```text
//! [dev-dependencies]
//! distlock = { version = "0.1", features = ["testing"] }
//! ```

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Path, State},
    routing::post,
};
use distlock::{LockError, LockManager, distributed_lock};

/// The store of the coupons: a database, and in tests a type that checks its callers.
trait Coupons: Send + Sync + 'static {
    /// Takes a coupon, and returns whether it was there.
    fn take(&self, coupon: &str) -> bool;
}

/// In memory, for this example.
#[derive(Default)]
struct Redeemed(Mutex<HashSet<String>>);

impl Coupons for Redeemed {
    fn take(&self, coupon: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(coupon.to_owned())
    }
}

#[derive(Clone)]
struct App {
    locks: LockManager,
    coupons: Arc<dyn Coupons>,
}

/// `manager = app.locks`: a server spawns its handlers, which do not inherit what `with_manager` sets.
#[distributed_lock(key = "coupon:<coupon>", wait = "2s", manager = app.locks)]
async fn redeem(State(app): State<App>, Path(coupon): Path<String>) -> Result<&'static str, LockError> {
    // Here it talks to a database.
    tokio::task::yield_now().await;
    Ok(if app.coupons.take(&coupon) { "redeemed" } else { "used already" })
}

fn router(app: App) -> Router {
    Router::new().route("/coupons/{coupon}", post(redeem)).with_state(app)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let app = App { locks: LockManager::in_memory(), coupons: Arc::new(Redeemed::default()) };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    axum::serve(listener, router(app)).with_graceful_shutdown(stop).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use distlock::testing::{Fault, Sections, TestStore, assert_held_here, eventually, fail_next, lose};
    use distlock_fixtures::RedisServer;

    use super::*;

    /// Replaces the database in tests, and fails a test whose code forgets the lock.
    #[derive(Default)]
    struct GuardedCoupons(Redeemed);

    impl Coupons for GuardedCoupons {
        fn take(&self, coupon: &str) -> bool {
            assert_held_here(format!("coupon:{coupon}"));
            self.0.take(coupon)
        }
    }

    /// Each test has its own locks, so tests with the same keys run in parallel.
    fn app() -> App {
        app_with(LockManager::in_memory())
    }

    fn app_with(locks: LockManager) -> App {
        App { locks, coupons: Arc::new(GuardedCoupons::default()) }
    }

    async fn redeem_tea(app: &App) -> Result<&'static str, LockError> {
        redeem(State(app.clone()), Path("tea".to_owned())).await
    }

    #[tokio::test]
    async fn a_coupon_is_redeemed_once() {
        let app = app();
        let sections = Sections::of([&app.locks]);
        let results = futures(&app, 5).await;
        assert_eq!(results.iter().filter(|result| **result == "redeemed").count(), 1);
        let count = sections.count("coupon:tea");
        assert_eq!((count.begun, count.most_at_once, count.running), (5, 1, 0));
    }

    async fn futures(app: &App, count: usize) -> Vec<&'static str> {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..count {
            let app = app.clone();
            tasks.spawn(async move { redeem_tea(&app).await.unwrap() });
        }
        tasks.join_all().await
    }

    #[tokio::test]
    async fn what_goes_wrong_with_a_lock_reaches_the_caller() {
        let app = app();
        for fault in [Fault::Busy, Fault::Unavailable, Fault::Lost] {
            fail_next(&app.locks, "coupon:tea", fault);
            let error = redeem_tea(&app).await.unwrap_err();
            assert_eq!(error.is_lost(), fault == Fault::Lost, "{error}");
            assert_eq!(error.is_busy(), fault == Fault::Busy, "{error}");
        }
        assert_eq!(redeem_tea(&app).await.unwrap(), "redeemed", "none of them has");
    }

    /// A real server, whose handlers run in spawned tasks.
    #[tokio::test]
    async fn a_spawned_server_answers_409_while_the_lock_is_held() {
        let app = app();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = axum::serve(listener, router(app.clone()));
        let server = server.with_graceful_shutdown(async { drop(stopped.await) });
        let server = tokio::spawn(server.into_future());

        fail_next(&app.locks, "coupon:tea", Fault::Busy);
        for status in [409, 200] {
            assert_eq!(post(address, "/coupons/tea").await, status);
        }
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
        let report = app.locks.shutdown(Duration::from_secs(5)).await;
        assert_eq!((report.lost, report.unconfirmed), (0, 0));
    }

    async fn post(address: std::net::SocketAddr, path: &str) -> u16 {
        use hyper_util::client::legacy::Client;
        let client = Client::builder(hyper_util::rt::TokioExecutor::new()).build_http();
        let request = axum::http::Request::post(format!("http://{address}{path}"));
        let request = request.body(http_body_util::Empty::<axum::body::Bytes>::new()).unwrap();
        client.request(request).await.unwrap().status().as_u16()
    }

    #[tokio::test]
    async fn two_processes_share_a_store() {
        let store = TestStore::new();
        let coupons = Arc::new(GuardedCoupons::default());
        let process = || App { locks: store.process(), coupons: coupons.clone() };
        let (one, other) = (process(), process());
        let (first, second) = tokio::join!(redeem_tea(&one), redeem_tea(&other));
        assert_ne!(first.unwrap(), second.unwrap());
    }

    /// With the test's clock, the wait of two seconds takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_lock_that_is_held_for_long_is_a_conflict_after_two_seconds() {
        let store = TestStore::on_paused_time();
        let app = app_with(store.process());
        let holder = store.process().lock("coupon:tea").acquire().await.unwrap();
        let before = tokio::time::Instant::now();
        assert!(redeem_tea(&app).await.unwrap_err().is_busy());
        assert_eq!(before.elapsed().as_secs(), 2);
        holder.release().await.unwrap();
    }

    /// The same on a real server, which the test starts. (In a program of your own: a child process, or a container.)
    #[tokio::test]
    async fn it_works_on_redis() {
        let server = RedisServer::start();
        let app = app_with(LockManager::connect(server.url()).await.unwrap());
        assert_eq!(redeem_tea(&app).await.unwrap(), "redeemed");
        let held = app.locks.lock("coupon:tea").run(async |_| std::future::pending::<()>().await);
        let loss = eventually("it is held", async || lose(&app.locks, "coupon:tea"));
        let (held, _) = tokio::join!(held, loss);
        assert!(held.unwrap_err().is_lost());
        assert_eq!(redeem_tea(&app).await.unwrap(), "used already", "the lock is free again");
    }
}
