//! The warnings of the body stay.

#![deny(warnings)]

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k")]
async fn f() -> Result<(), LockError> {
    let unused = 1;
    f();
    return Ok(());
    println!("never");
}

fn main() {}
