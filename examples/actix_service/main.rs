//! A handler on actix-web: the lock's error becomes a response by `ResponseError`, which the service's own error type
//! implements.
//!
//! ```text
//! cargo run --example actix_service                          locks in memory, on a free port
//! cargo run --example actix_service -- redis://127.0.0.1/    through Redis
//! ```

#![allow(clippy::print_stdout)]

use std::{sync::Mutex, time::Duration};

use actix_web::{
    App, HttpResponse, HttpServer, ResponseError,
    http::StatusCode,
    web::{Data, Path},
};
use distlock::{LockError, LockManager, distributed_lock};

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
            response.insert_header(("retry-after", after.as_secs()));
        }
        // Not the error's text, which contains the key.
        response.body(self.status_code().canonical_reason().unwrap_or_default())
    }
}

struct Shop {
    locks: LockManager,
    /// Stands for a table in a database.
    stock: Mutex<u32>,
}

/// One at a time for each item, on all machines.
#[distributed_lock(key = "item:<item>", wait = "2s", manager = shop.locks)]
async fn buy(shop: Data<Shop>, item: Path<u64>) -> Result<String, ApiError> {
    let left = *shop.stock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Here others would read the same number, if they could.
    actix_web::rt::time::sleep(Duration::from_millis(1)).await;
    let left = left.checked_sub(1).ok_or(ApiError::SoldOut)?;
    *shop.stock.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = left;
    Ok(format!("item {item} is yours, {left} left"))
}

fn routes(config: &mut actix_web::web::ServiceConfig) {
    config.route("/items/{item}/buy", actix_web::web::post().to(buy));
}

#[actix_web::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockManager::connect(url).await?;
    let shop = Data::new(Shop { locks: locks.clone(), stock: Mutex::new(100) });
    let server = HttpServer::new(move || App::new().app_data(shop.clone()).configure(routes));
    let server = server.bind("127.0.0.1:0")?;
    for address in server.addrs() {
        println!("try: curl -i -X POST http://{address}/items/7/buy");
    }
    // Ends at a signal, when its requests have; then their locks are released.
    server.run().await?;
    println!("{:?}", locks.shutdown(Duration::from_secs(10)).await);
    Ok(())
}

#[cfg(test)]
mod tests {
    use actix_web::test::{TestRequest, call_service, init_service};
    use distlock::testing::{Fault, fail_next};

    use super::*;

    #[actix_web::test]
    async fn nothing_is_sold_twice_and_errors_are_responses() {
        let locks = LockManager::in_memory();
        let shop = Data::new(Shop { locks: locks.clone(), stock: Mutex::new(10) });
        let app = init_service(App::new().app_data(shop.clone()).configure(routes)).await;
        let buy = || call_service(&app, TestRequest::post().uri("/items/7/buy").to_request());
        let all = futures_util::future::join_all((0..12).map(|_| buy())).await;
        let statuses = |status| all.iter().filter(|response| response.status() == status).count();
        assert_eq!((statuses(StatusCode::OK), statuses(StatusCode::GONE)), (10, 2));
        for (fault, status) in [(Fault::Busy, 409), (Fault::Unavailable, 503), (Fault::Lost, 503)] {
            fail_next(&locks, "item:7", fault);
            let response = buy().await;
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers().contains_key("retry-after"), fault != Fault::Lost);
        }
    }
}
