//! A stream behind an associated type, as in a gRPC service.

use distlock::{LockError, distributed_lock};
use std::pin::Pin;

use futures_util::Stream;

struct Response<T>(T);

trait Service {
    type Events: Stream<Item = u8>;
    async fn call(&self) -> Result<Response<Self::Events>, LockError>;
}

impl Service for u8 {
    type Events = Pin<Box<dyn Stream<Item = u8> + Send>>;

    #[distributed_lock(key = "<self>")]
    async fn call(&self) -> Result<Response<Self::Events>, LockError> {
        Ok(Response(Box::pin(futures_util::stream::iter([1]))))
    }
}

fn main() {}
