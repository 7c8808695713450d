//! On a trait method without a body.

use distlock::{LockError, distributed_lock};

pub trait Shop {
    #[distributed_lock(key = "k")]
    async fn order(&self) -> Result<(), LockError>;
}

fn main() {}
