//! A `?` in `transaction`, on an error that is not one of the lock.

use distlock::fence::FencedDatabase;
use distlock::{LockError, distributed_lock};

struct NoShard;

enum PayError {
    Shard,
    Lock,
}

impl From<NoShard> for PayError {
    fn from(_: NoShard) -> Self {
        PayError::Shard
    }
}

impl From<LockError> for PayError {
    fn from(_: LockError) -> Self {
        PayError::Lock
    }
}

fn shard<D>(pools: &[D], id: usize) -> Result<&D, NoShard> {
    pools.get(id).ok_or(NoShard)
}

#[distributed_lock(key = "k", transaction = tx in shard(pools, id)?)]
async fn pay<D: FencedDatabase + Send>(pools: &[D], id: usize) -> Result<(), PayError> {
    Ok(())
}

fn main() {}
