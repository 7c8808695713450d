//! A constant, and a parameter of the `impl`.

use distlock::{LockError, distributed_lock};

struct Shard<const N: usize>;

impl<const N: usize> Shard<N> {
    #[distributed_lock(key = "shard:<N>")]
    async fn f(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
