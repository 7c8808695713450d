//! A type parameter of the `impl`, without `Display`.

use distlock::{LockError, distributed_lock};

struct Repository<K>(K);

impl<K: Clone> Repository<K> {
    #[distributed_lock(key = "order:<id>")]
    async fn f(&self, id: K) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
