//! The business function, without and with the lock.

use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock};

use crate::store::Store;

/// What a gift costs.
pub(crate) const PRICE: i64 = 100;

#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pub(crate) store: Store,
    pub(crate) locks: LockManager,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RedeemError {
    #[error("{points} points are not enough: a gift costs {PRICE}")]
    NotEnoughPoints { points: i64 },
    #[error("there is no user {0}")]
    UnknownUser(u64),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl Shop {
    /// Redeems one gift and returns the points that are left: one redemption per user at a time, in all instances of
    /// the service together.
    #[distributed_lock(key = "points:<user_id>", ttl = "10s", manager = self.locks)]
    pub(crate) async fn redeem(&self, user_id: u64) -> Result<i64, RedeemError> {
        self.redeem_unguarded(user_id).await
    }

    /// The same without the lock: two redemptions at the same moment read the same balance, and both give a gift.
    pub(crate) async fn redeem_unguarded(&self, user_id: u64) -> Result<i64, RedeemError> {
        let account = self.store.account(user_id).await?.ok_or(RedeemError::UnknownUser(user_id))?;
        ask_the_warehouse().await;
        if account.points < PRICE {
            return Err(RedeemError::NotEnoughPoints { points: account.points });
        }
        let left = account.points - PRICE;
        self.store.give_gift(user_id, left).await?;
        Ok(left)
    }
}

/// Stands for the call to another service that sits between reading and writing in real life.
async fn ask_the_warehouse() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
