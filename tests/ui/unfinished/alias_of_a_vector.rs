//! Containers of futures behind names.

use std::pin::Pin;

use distlock::{LockError, distributed_lock};

type R<T> = Result<T, LockError>;
type Fut = Pin<Box<dyn Future<Output = u8> + Send>>;

type Futs = Vec<Fut>;
#[distributed_lock(key = "k")]
async fn vector() -> R<Futs> {
    Ok(Vec::new())
}

type Some1 = Result<Option<Vec<Fut>>, LockError>;
#[distributed_lock(key = "k")]
async fn deep() -> Some1 {
    Ok(None)
}

type Boxed = Box<std::future::Ready<u8>>;
#[distributed_lock(key = "k")]
async fn boxed() -> R<Boxed> {
    Ok(Box::new(std::future::ready(1)))
}

fn main() {}
