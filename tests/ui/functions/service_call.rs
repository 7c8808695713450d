//! A future that cannot be named, as in `tower::Service::call`.

use distlock::{LockError, distributed_lock};

trait Service {
    type Future: Future<Output = Result<(), LockError>>;
    fn call(&mut self) -> Self::Future;
}

struct Shop;

impl Service for Shop {
    type Future = std::future::Ready<Result<(), LockError>>;

    #[distributed_lock(key = "k")]
    fn call(&mut self) -> Self::Future {
        std::future::ready(Ok(()))
    }
}

fn main() {}
