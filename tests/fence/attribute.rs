//! `transaction`, `once` and `fence` of the attribute: the lock, the fence, the effects and the result.

use std::sync::Mutex;
use std::time::Duration;

use distlock::fence::{Fence, FenceError, FencedTransaction, Outcome, blocking};
use distlock::{LockError, LockManager, distributed_lock, is_held_here};
use rusqlite::Connection;
use sqlx::{PgPool, Postgres, SqlitePool, Transaction};
use tokio::sync::oneshot;

use crate::library::{Failure, Step, Steps};
use crate::world::{World, postgres_at, sqlite};

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Fence(error) => Failure::Fence(error),
            error => Failure::Lock(error),
        }
    }
}

#[derive(Clone)]
struct Shop {
    locks: LockManager,
    pool: SqlitePool,
}

impl Shop {
    async fn open() -> (Self, tempfile::TempDir) {
        let (pool, folder) = sqlite().await;
        // The database has the same key as the store.
        let locks = LockManager::in_memory();
        (Shop { locks, pool }, folder)
    }

    #[distributed_lock(key = "k", manager = self.locks, transaction = tx in self.pool, fence = fence)]
    async fn redeem(&self, result: Result<u64, Failure>) -> Result<u64, Failure> {
        assert!(is_held_here("k"));
        SqlitePool::step(tx, &fence, Step::Write).await?;
        result
    }

    #[distributed_lock(
        key = "k",
        manager = self.locks,
        transaction = tx in &self.pool,
        once = "24h",
        once_of = gift,
        once_outcome = outcome,
        fence = fence
    )]
    async fn redeem_once(&self, gift: u64, outcome: &mut Outcome) -> Result<u64, Failure> {
        SqlitePool::step(tx, &fence, Step::Write).await?;
        Ok(gift + fence.token())
    }

    #[distributed_lock(key = "k", manager = self.locks, transaction = tx in self.pool, fence = fence)]
    async fn panics(&self) -> Result<(), Failure> {
        SqlitePool::step(tx, &fence, Step::Write).await?;
        panic!("the body")
    }

    #[distributed_lock(key = "k", manager = self.locks, transaction = tx in self.pool, fence = fence)]
    async fn hangs(&self, begun: oneshot::Sender<()>) -> Result<(), Failure> {
        SqlitePool::step(tx, &fence, Step::Write).await?;
        begun.send(()).unwrap();
        std::future::pending().await
    }

    #[distributed_lock(key = "k", manager = self.locks, fence = fence)]
    async fn shows_its_fence(&self) -> Result<Fence, LockError> {
        Ok(fence)
    }
}

#[tokio::test]
async fn ok_commits_and_err_rolls_back() {
    let (shop, _folder) = Shop::open().await;
    assert_eq!(shop.redeem(Ok(7)).await.unwrap(), 7);
    assert_eq!(shop.pool.written("k").await.len(), 1);
    assert!(matches!(shop.redeem(Err(Failure::Refused)).await, Err(Failure::Refused)));
    let copy = shop.clone();
    let panicked = tokio::spawn(async move { copy.panics().await });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));
    shop.redeem(Ok(7)).await.unwrap();
    let written = shop.pool.written("k").await;
    assert!(written.len() == 2 && written[0] < written[1], "{written:?}");
}

#[tokio::test]
async fn a_call_that_is_dropped_rolls_back() {
    let (shop, _folder) = Shop::open().await;
    let (copy, (begun, has_begun)) = (shop.clone(), oneshot::channel());
    let dropped = tokio::spawn(async move { copy.hangs(begun).await });
    has_begun.await.unwrap();
    dropped.abort();
    assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
    shop.redeem(Ok(7)).await.unwrap();
    assert_eq!(shop.pool.written("k").await.len(), 1);
}

/// The lock may be lost by `distlock release`, for example. The body is stopped, and none of its writes stays.
#[tokio::test]
async fn a_lock_that_is_lost_rolls_back() {
    let (shop, _folder) = Shop::open().await;
    let (copy, (begun, has_begun)) = (shop.clone(), oneshot::channel());
    let hangs = tokio::spawn(async move { copy.hangs(begun).await });
    has_begun.await.unwrap();
    shop.locks.force_release("k").await.unwrap();
    let lost = hangs.await.unwrap();
    assert!(matches!(&lost, Err(Failure::Lock(error)) if error.is_lost()), "{lost:?}");
    shop.redeem(Ok(7)).await.unwrap();
    assert_eq!(shop.pool.written("k").await.len(), 1);
}

#[tokio::test]
async fn a_holder_that_was_overtaken_is_refused_before_its_body() {
    let (shop, _folder) = Shop::open().await;
    let held = shop.shows_its_fence().await.unwrap();
    let later = Fence::new(held.key(), held.token() + 1_000_000_000);
    FencedTransaction::begin(&later, &shop.pool).await.unwrap().commit().await.unwrap();
    let late = shop.redeem(Ok(7)).await;
    assert!(
        matches!(&late, Err(Failure::Fence(FenceError::Stale { newest, .. })) if *newest == later.token()),
        "{late:?}"
    );
    assert_eq!(shop.pool.written("k").await, [0; 0]);
}

#[tokio::test]
async fn a_repeated_call_gets_the_first_result() {
    let (shop, _folder) = Shop::open().await;
    let mut outcome = Outcome::Replay;
    let first = shop.redeem_once(5, &mut outcome).await.unwrap();
    assert_eq!(outcome, Outcome::FirstRun);
    assert_eq!(shop.redeem_once(5, &mut outcome).await.unwrap(), first);
    assert_eq!(outcome, Outcome::Replay);
    let other = shop.redeem_once(6, &mut outcome).await;
    assert!(matches!(other, Err(Failure::Fence(FenceError::OtherArguments { .. }))), "{other:?}");
    assert_eq!(shop.pool.written("k").await.len(), 1);
}

/// Of several simultaneous calls for the same request, one runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_run_once() {
    let (shop, _folder) = Shop::open().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let shop = shop.clone();
        tasks.spawn(async move { shop.redeem_once(5, &mut Outcome::default()).await.unwrap() });
    }
    let results = tasks.join_all().await;
    assert!(results.windows(2).all(|two| two[0] == two[1]), "{results:?}");
    assert_eq!(shop.pool.written("k").await.len(), 1);
}

#[distributed_lock(key = "k", manager = shop.locks, transaction = tx in shop.pool, once = "24h", fence = fence)]
async fn pay(shop: &Shop) -> Result<(), Failure> {
    SqlitePool::step(tx, &fence, Step::Write).await
}

#[distributed_lock(key = "k", manager = shop.locks, transaction = tx in shop.pool, once = "24h", fence = fence)]
async fn refund(shop: &Shop) -> Result<(), Failure> {
    SqlitePool::step(tx, &fence, Step::Write).await
}

/// It would return the first one's result and never run.
#[tokio::test]
async fn another_function_with_the_same_key_is_refused() {
    let (shop, _folder) = Shop::open().await;
    pay(&shop).await.unwrap();
    pay(&shop).await.unwrap();
    let other = refund(&shop).await;
    assert!(matches!(other, Err(Failure::Fence(FenceError::OtherArguments { .. }))), "{other:?}");
    assert_eq!(shop.pool.written("k").await.len(), 1);
}

#[distributed_lock(key = "k", manager = locks, transaction = tx in database, once = "24h", once_of = amount)]
fn pay_here(locks: &LockManager, database: &Mutex<Connection>, amount: u64) -> Result<usize, Failure> {
    Ok(tx.execute("INSERT INTO done DEFAULT VALUES", [])?)
}

#[distributed_lock(key = "k", manager = locks, transaction = tx in database, once = "24h", once_of = amount)]
fn refund_here(locks: &LockManager, database: &Mutex<Connection>, amount: u64) -> Result<usize, Failure> {
    Ok(tx.execute("INSERT INTO done DEFAULT VALUES", [])?)
}

/// With equal arguments, on a thread.
#[test]
fn another_function_that_blocks_is_refused() {
    let (locks, mut database) = (LockManager::in_memory(), Connection::open_in_memory().unwrap());
    database.execute_batch("CREATE TABLE done (n INTEGER)").unwrap();
    blocking::migrate(&mut database).unwrap();
    let database = Mutex::new(database);
    assert_eq!(pay_here(&locks, &database, 5).unwrap(), 1);
    assert_eq!(pay_here(&locks, &database, 5).unwrap(), 1);
    let other = refund_here(&locks, &database, 5);
    assert!(matches!(other, Err(Failure::Fence(FenceError::OtherArguments { .. }))), "{other:?}");
}

async fn write(tx: &mut Transaction<'_, Postgres>, fence: &Fence) -> Result<(), Failure> {
    PgPool::step(tx, fence, Step::Write).await
}

/// Patterns take a handler's arguments apart, and its values are moved into the body.
#[distributed_lock(key = "k:<user>", manager = locks, transaction = tx in pool, once = keep, guard = guard)]
async fn handler(
    locks: LockManager,
    (pool, user): (PgPool, u64),
    keep: Duration,
    name: String,
) -> Result<String, Failure> {
    write(tx, &guard.fence()?).await?;
    Ok(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_moved_and_taken_apart() {
    let (pool, _its) = postgres_at("read committed").await;
    let locks = LockManager::in_memory();
    for name in ["first", "second"] {
        let keep = Duration::from_secs(60);
        let call = handler(locks.clone(), (pool.clone(), 1), keep, name.to_owned());
        assert_eq!(tokio::spawn(call).await.unwrap().unwrap(), "first");
    }
    assert_eq!(pool.written("k:1").await.len(), 1);
}
