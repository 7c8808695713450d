//! An argument that an option uses is changed before the locked block.

use std::pin::Pin;

use distlock::{LockError, distributed_lock};

type R = Result<u64, LockError>;

#[distributed_lock(key = "account:<id>:<name>:<zone>:<at>")]
fn arguments_that_change(
    mut id: u64,
    mut name: String,
    mut zone: String,
    mut at: u64,
) -> Pin<Box<dyn Future<Output = R> + Send>> {
    id %= 16;
    name.make_ascii_lowercase();
    std::mem::take(&mut zone);
    if id == 0 {
        (at, _) = (id, id);
    }
    Box::pin(async move { Ok(id + at) })
}

// No option uses it, or it is changed in the block.
#[distributed_lock(key = "account:<id>")]
fn allowed(mut id: u64, mut name: String) -> Pin<Box<dyn Future<Output = R> + Send>> {
    name.make_ascii_lowercase();
    Box::pin(async move {
        id += name.len() as u64;
        Ok(id)
    })
}

fn main() {}
