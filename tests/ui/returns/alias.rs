//! An alias of a `Result` without `From<LockError>`.

use distlock::distributed_lock;

#[distributed_lock(key = "k")]
async fn f() -> std::io::Result<u64> {
    Ok(1)
}

fn main() {}
