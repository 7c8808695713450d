//! A transaction that the caller commits, after the release. A `Transaction` that is none of a library is allowed.

use distlock::fence::FencedDatabase;
use distlock::{LockError, distributed_lock};

mod library {
    pub struct Transaction<'c>(pub &'c mut u8);
    pub struct DatabaseTransaction;
}

struct Transaction;

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn f<D: FencedDatabase>(pool: D, outer: &mut Transaction) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn owned<D: FencedDatabase>(pool: D, outer: library::Transaction<'_>) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn shared<D: FencedDatabase>(pool: D, outer: &library::DatabaseTransaction) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", transaction = tx in pool)]
async fn payment<D: FencedDatabase>(pool: D, payment: Transaction, other: &Transaction) -> Result<(), LockError> {
    let _ = (tx, payment, other);
    Ok(())
}

fn main() {}
