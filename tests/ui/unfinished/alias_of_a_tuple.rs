//! Tuples with a future behind names.

use std::pin::Pin;

use distlock::{LockError, distributed_lock};

type R<T> = Result<T, LockError>;
type Fut = Pin<Box<dyn Future<Output = u8> + Send>>;

type Two = (u8, Fut);
#[distributed_lock(key = "k")]
async fn two() -> R<Two> {
    unimplemented!()
}

type Four = (u8, u8, u8, Option<Fut>);
#[distributed_lock(key = "k")]
async fn four() -> R<Four> {
    unimplemented!()
}

fn main() {}
