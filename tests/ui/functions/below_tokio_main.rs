//! Below `#[tokio::main]`.

use distlock::{LockError, distributed_lock};

#[tokio::main(flavor = "current_thread")]
#[distributed_lock(key = "k")]
async fn main() -> Result<(), LockError> {
    Ok(())
}


