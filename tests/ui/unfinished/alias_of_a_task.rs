//! Types that continue after the function returns, behind names.

use distlock::{LockError, distributed_lock};

type R<T> = Result<T, LockError>;

type Thread = std::thread::JoinHandle<u8>;
#[distributed_lock(key = "k")]
fn thread() -> R<Thread> {
    Ok(std::thread::spawn(|| 1))
}

type Task = tokio::task::JoinHandle<u8>;
#[distributed_lock(key = "k")]
async fn task() -> R<Task> {
    Ok(tokio::spawn(async { 1 }))
}

type Tasks = tokio::task::JoinSet<u8>;
#[distributed_lock(key = "k")]
async fn tasks() -> R<Tasks> {
    Ok(tokio::task::JoinSet::new())
}

fn main() {}
