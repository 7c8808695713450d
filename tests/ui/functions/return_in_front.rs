//! A guard clause that returns before the locked block.

use std::pin::Pin;

use distlock::{LockError, distributed_lock};

type R<T> = Result<T, LockError>;

#[distributed_lock(key = "k")]
fn early(x: bool) -> Pin<Box<dyn Future<Output = R<bool>> + Send>> {
    if x {
        return Box::pin(async { Ok(true) });
    }
    let Some(_) = x.then_some(1) else { return Box::pin(std::future::ready(Ok(false))) };
    let _kept = || {
        return 1;
    };
    let _later = async { return 1 };
    Box::pin(async move { Ok(false) })
}

macro_rules! ensure {
    ($($tokens:tt)*) => { $($tokens)* };
}

#[distributed_lock(key = "k")]
fn in_a_macro(x: bool) -> Pin<Box<dyn Future<Output = R<bool>> + Send>> {
    ensure!(if x { return Box::pin(async { Ok(true) }) });
    return Box::pin(async move { Ok(false) });
}

fn instrument<T>(future: T, _: u8) -> T {
    future
}

#[distributed_lock(key = "k")]
fn in_an_argument(x: Option<u8>) -> Pin<Box<dyn Future<Output = R<bool>> + Send>> {
    instrument(Box::pin(async move { Ok(false) }), match x {
        Some(x) => x,
        None => return Box::pin(async { Ok(true) }),
    })
}

fn main() {}
