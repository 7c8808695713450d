//! A handler on actix-web: the lock's error becomes a response by `ResponseError`, which the service's own error type
//! implements.
//!
//! ```text
//! cargo run --release --example actix_service                              embedded, nothing to install
//! cargo run --release --example actix_service -- --url redis://127.0.0.1/  through Redis
//! curl -i -X POST http://127.0.0.1:3000/items/7/buy
//! ```
//!
//! Look at `buy` (a handler under a lock), at `ResponseError for ApiError`, and at the end of `main`: actix ends at
//! SIGTERM after its last request has ended, and then the manager is shut down, so that no lock is left behind.

#![allow(clippy::print_stdout)]

use std::{net::SocketAddr, sync::Mutex, time::Duration};

use actix_web::{
    App, HttpResponse, HttpServer, ResponseError,
    http::StatusCode,
    web::{Data, Path},
};
use clap::Parser;
use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Store};

/// How long running requests may take when the service ends, in seconds.
const GRACE: u64 = 10;

/// A web service on actix-web whose handlers run under locks
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// How long the work of a request takes, in milliseconds
    #[arg(long, default_value_t = 1)]
    work: u64,
}

/// The error of a handler.
#[derive(Debug, thiserror::Error)]
enum ApiError {
    #[error("sold out")]
    SoldOut,
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        match self {
            ApiError::SoldOut => StatusCode::GONE,
            ApiError::Lock(error) if error.is_busy() => StatusCode::CONFLICT,
            ApiError::Lock(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let ApiError::Lock(error) = self
            && let Some(after) = error.retry_after()
        {
            // In whole seconds, rounded up: 0 would say "at once".
            response.insert_header(("retry-after", after.as_secs_f64().ceil().to_string()));
        }
        // Not the error's text, which contains the key.
        response.body(self.status_code().canonical_reason().unwrap_or_default())
    }
}

struct Shop {
    locks: LockManager,
    /// How long the work of a request takes.
    work: Duration,
    /// Stands for a table in a database.
    stock: Mutex<u32>,
}

/// One at a time for each item, on all machines.
#[distributed_lock(key = "item:<item>", wait = "2s", manager = shop.locks)]
async fn buy(shop: Data<Shop>, item: Path<u64>) -> Result<String, ApiError> {
    let left = *shop.stock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Without the lock, other requests would read the same number here.
    actix_web::rt::time::sleep(shop.work).await;
    let left = left.checked_sub(1).ok_or(ApiError::SoldOut)?;
    *shop.stock.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = left;
    Ok(format!("item {item} is yours, {left} left"))
}

fn routes(config: &mut actix_web::web::ServiceConfig) {
    config.route("/items/{item}/buy", actix_web::web::post().to(buy));
}

#[actix_web::main]
async fn main() -> Result<(), AnyError> {
    let Options { store, listen, work } = Options::parse();
    let locks = LockManager::connect(&store.url).await?;
    let work = Duration::from_millis(work);
    let shop = Data::new(Shop { locks: locks.clone(), work, stock: Mutex::new(100) });
    let server = HttpServer::new(move || App::new().app_data(shop.clone()).configure(routes));
    let server = server.shutdown_timeout(GRACE).bind(listen)?;
    for address in server.addrs() {
        println!("listening on http://{address}");
    }
    // Ends at SIGTERM or Ctrl-C, after the running requests have ended. Then the locks that they still hold are
    // released.
    server.run().await?;
    let report = locks.shutdown(Duration::from_secs(1)).await;
    println!("{report:?}");
    match report.lost + report.ignored + report.unconfirmed {
        0 => Ok(()),
        left => Err(format!("{left} locks were left behind: others wait for the end of their leases").into()),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::{TestRequest, call_service, init_service};
    use distlock::testing::{Fault, fail_next};

    use super::*;

    #[actix_web::test]
    async fn nothing_is_sold_twice_and_errors_are_responses() {
        let locks = LockManager::in_memory();
        let shop =
            Data::new(Shop { locks: locks.clone(), work: Duration::from_millis(1), stock: Mutex::new(10) });
        let app = init_service(App::new().app_data(shop.clone()).configure(routes)).await;
        let buy = || call_service(&app, TestRequest::post().uri("/items/7/buy").to_request());
        let all = futures_util::future::join_all((0..12).map(|_| buy())).await;
        let statuses = |status| all.iter().filter(|response| response.status() == status).count();
        assert_eq!((statuses(StatusCode::OK), statuses(StatusCode::GONE)), (10, 2));
        for (fault, status) in [(Fault::Busy, 409), (Fault::Unavailable, 503), (Fault::Lost, 503)] {
            fail_next(&locks, "item:7", fault);
            let response = buy().await;
            assert_eq!(response.status().as_u16(), status);
            let after =
                response.headers().get("retry-after").map(|value| value.to_str().unwrap().parse::<u64>());
            assert_eq!(after.is_some(), fault != Fault::Lost);
            assert!(after.is_none_or(|seconds| seconds.unwrap() >= 1), "0 would say: at once");
        }
    }
}
