//! A word of a fixed template that is the name of an argument.

#![deny(warnings)]

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "order:id")]
pub async fn f(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["account:from", "account:<to>", "account/to"])]
pub async fn several(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

#[distributed_lock(key = String::from("order:id"))]
pub async fn meant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>:item")]
pub async fn beside_a_placeholder(id: u64, item: u64) -> Result<u64, LockError> {
    Ok(id + item)
}

fn main() {}
