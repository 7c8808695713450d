//! The outcome of a transaction that must wait for another one of its key, at each isolation level.

use std::time::Duration;

use distlock_fence::{Fence, FenceError};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::sync::oneshot;

use crate::library::{Failure, Library, Plan};
use crate::world::{World, mariadb_at, postgres_at, sqlite};

/// The later one waits in the database until the older one has committed.
async fn one_that_waits<D: World>(database: &D) -> Result<(), Failure> {
    let (copy, (checked, is_checked), (go, may_go)) =
        (database.clone(), oneshot::channel(), oneshot::channel());
    let plan = Plan { pause: Some((checked, may_go)), ..Plan::default() };
    let older = tokio::spawn(async move { copy.section(&Fence::new("k", 1), plan).await });
    is_checked.await.unwrap();
    let copy = database.clone();
    let later = tokio::spawn(async move { copy.section(&Fence::new("k", 2), Plan::default()).await });
    while !database.waits().await {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    older.await.unwrap().unwrap();
    later.await.unwrap()
}

/// The code of the database, if nothing was committed.
fn code_of(result: Result<(), Failure>) -> Option<String> {
    let Err(Failure::Fence(FenceError::NotCommitted { source, .. })) = result else { return None };
    let code = source.downcast_ref::<sqlx::Error>()?.as_database_error()?.code()?;
    Some(code.into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_a_snapshot_of_before_is_refused() {
    for (level, refused) in [("read committed", false), ("repeatable read", true), ("serializable", true)] {
        let (pool, _its) = postgres_at(level).await;
        let waited = one_that_waits(&pool).await;
        if refused {
            assert_eq!(code_of(waited).as_deref(), Some("40001"), "{level}");
        } else {
            waited.unwrap();
        }
        // It can be retried.
        pool.section(&Fence::new("k", 2), Plan::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_it_goes_on_at_every_level() {
    for level in ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let (pool, _its) = mariadb_at(level).await;
        one_that_waits(&pool).await.unwrap();
        assert_eq!(pool.written("k").await, [1, 2], "{level}");
    }
}

/// It fails with SQLITE_BUSY, because its pool does not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_it_waits_for_as_long_as_the_pool_says() {
    let (pool, folder) = sqlite().await;
    let options = SqliteConnectOptions::new().filename(folder.path().join("data.db"));
    let impatient =
        SqlitePoolOptions::new().connect_with(options.busy_timeout(Duration::ZERO)).await.unwrap();
    let (older, later) = (Fence::new("k", 1), Fence::new("k", 2));
    let refused = distlock_fence::transaction(&older, &pool, async |_| {
        Ok::<_, Failure>(impatient.section(&later, Plan::default()).await)
    });
    assert_eq!(code_of(refused.await.unwrap()).as_deref(), Some("5"));
    impatient.section(&later, Plan::default()).await.unwrap();
}
