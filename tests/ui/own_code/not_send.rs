//! A body that is not `Send`.

use distlock::{LockError, distributed_lock};

use std::rc::Rc;

#[distributed_lock(key = "k")]
async fn f() -> Result<u64, LockError> {
    let number = Rc::new(1);
    std::future::ready(()).await;
    Ok(*number)
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(f());
}
