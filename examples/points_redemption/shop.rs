//! The business function, without and with the lock.

use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock, fence::FenceError};
use sqlx::SqliteConnection;

use crate::store::{Account, Store, account, give_gift};

/// The price of a gift.
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
    /// From a transaction that was begun without the attribute.
    #[error(transparent)]
    Fence(#[from] FenceError),
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
        self.redeem_slowly(user_id, ask_the_warehouse()).await
    }

    /// Redeems one gift. `pause` runs between reading and writing.
    pub(crate) async fn redeem_slowly(
        &self,
        user_id: u64,
        pause: impl Future<Output = ()>,
    ) -> Result<i64, RedeemError> {
        let account = self.store.account(user_id).await?.ok_or(RedeemError::UnknownUser(user_id))?;
        pause.await;
        let left = points_left(account)?;
        self.store.give_gift(user_id, left).await?;
        Ok(left)
    }

    /// A lock, and a database that refuses a former holder after a later holder has written. The transaction is
    /// committed before the lock is released.
    #[distributed_lock(
        key = "points:<user_id>",
        ttl = "10s",
        manager = self.locks,
        transaction = tx in self.store.pool
    )]
    pub(crate) async fn redeem_fenced(&self, user_id: u64) -> Result<i64, RedeemError> {
        redeem_in(tx, user_id, ask_the_warehouse()).await
    }

    /// The same, done once: a client that repeats its request gets the first result. (Other requests of the user have
    /// other locks. SQLite lets one transaction write at a time; elsewhere let the statement subtract: `points - ?`.)
    #[distributed_lock(
        key = "redeem:<request>",
        ttl = "10s",
        manager = self.locks,
        transaction = tx in self.store.pool,
        once = "24h"
    )]
    pub(crate) async fn redeem_once(&self, request: &str, user_id: u64) -> Result<i64, RedeemError> {
        redeem_in(tx, user_id, ask_the_warehouse()).await
    }
}

/// Redeems within a transaction. `pause` runs between reading and writing.
pub(crate) async fn redeem_in(
    connection: &mut SqliteConnection,
    user_id: u64,
    pause: impl Future<Output = ()>,
) -> Result<i64, RedeemError> {
    let account = account(&mut *connection, user_id).await?.ok_or(RedeemError::UnknownUser(user_id))?;
    pause.await;
    let left = points_left(account)?;
    give_gift(connection, user_id, left).await?;
    Ok(left)
}

/// The points that are left after one more gift.
fn points_left(account: Account) -> Result<i64, RedeemError> {
    if account.points < PRICE {
        return Err(RedeemError::NotEnoughPoints { points: account.points });
    }
    Ok(account.points - PRICE)
}

/// Stands for a call to another service between reading and writing.
async fn ask_the_warehouse() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
