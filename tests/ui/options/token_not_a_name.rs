//! `token` is not a name.

use distlock::{LockError, distributed_lock};

#[distributed_lock(key = "k", token = self.token)]
async fn f(user_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
