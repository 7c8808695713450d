//! What holds on every database, and at every isolation level.

use distlock_fence::{Fence, FenceError, migrate, transaction};
use tokio::sync::oneshot;

use crate::world::{Failure, World, mariadb_at, postgres_at, sqlite};

/// One section of one holder.
async fn write<D: World>(database: &D, fence: Fence) -> Result<(), Failure> {
    transaction(&fence, database, async |tx| Ok(D::write(tx, &fence).await?)).await
}

fn is_stale(result: &Result<(), Failure>, token: u64, newest: u64) -> bool {
    matches!(result, Err(Failure::Fence(FenceError::Stale { key, token: its, newest: seen }))
        if key == "k" && *its == token && *seen == newest)
}

async fn a_holder_that_was_overtaken_changes_nothing<D: World>(database: &D) {
    write(database, Fence::new("k", 2)).await.unwrap();
    // The same holder, with another transaction.
    write(database, Fence::new("k", 2)).await.unwrap();
    let late = write(database, Fence::new("k", 1)).await;
    assert!(is_stale(&late, 1, 2), "{late:?}");
    write(database, Fence::new("k", 3)).await.unwrap();
    // Keys that a database might take for the same one.
    for key in ["K", "k ", "k\u{301}"] {
        write(database, Fence::new(key, 1)).await.unwrap();
    }
    assert_eq!(database.written("k").await[..3], [2, 2, 3]);
}

fn panic_of_the_body() -> Result<(), Failure> {
    panic!("the body")
}

async fn what_is_not_committed_neither_writes_nor_raises_the_token<D: World>(database: &D) {
    let fence = Fence::new("k", 9);
    let refused = transaction(&fence, database, async |tx| {
        D::write(tx, &fence).await?;
        Err::<(), _>(Failure::Refused)
    });
    assert!(matches!(refused.await, Err(Failure::Refused)));

    let (copy, fence_of_task) = (database.clone(), fence.clone());
    let panicked = tokio::spawn(async move {
        let section = transaction(&fence_of_task, &copy, async |tx| {
            D::write(tx, &fence_of_task).await?;
            panic_of_the_body()
        });
        section.await
    });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));

    let (copy, (begun, has_begun)) = (database.clone(), oneshot::channel());
    let dropped = tokio::spawn(async move {
        transaction(&fence, &copy, async |tx| {
            D::write(tx, &fence).await?;
            begun.send(()).unwrap();
            std::future::pending::<Result<(), Failure>>().await
        })
        .await
    });
    has_begun.await.unwrap();
    dropped.abort();
    assert!(dropped.await.is_err_and(|error| error.is_cancelled()));

    write(database, Fence::new("k", 1)).await.unwrap();
    assert_eq!(database.written("k").await, [1]);
}

/// The older transaction is open while the later holder comes: it commits first.
async fn transactions_commit_in_the_order_of_their_tokens<D: World>(database: &D) {
    let (copy, fence, (checked, is_checked)) = (database.clone(), Fence::new("k", 1), oneshot::channel());
    let (go, may_go) = oneshot::channel();
    let older = tokio::spawn(async move {
        transaction(&fence, &copy, async |tx| {
            checked.send(()).unwrap();
            may_go.await.unwrap();
            Ok::<_, Failure>(D::write(tx, &fence).await?)
        })
        .await
    });
    is_checked.await.unwrap();
    let copy = database.clone();
    let later = tokio::spawn(async move {
        loop {
            match write(&copy, Fence::new("k", 2)).await {
                // It had to wait, and its snapshot is too old.
                Err(Failure::Fence(FenceError::NotCommitted { .. })) => {}
                other => break other,
            }
        }
    });
    // Lets the later one reach the database if the scheduler likes; right in every order.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    older.await.unwrap().unwrap();
    later.await.unwrap().unwrap();
    assert_eq!(database.written("k").await, [1, 2]);
}

/// Holders without a lock: the worst that a lock can do.
async fn many_at_once_lose_nothing_and_keep_the_order<D: World>(database: &D) {
    let mut tasks = tokio::task::JoinSet::new();
    for holder in 0..8_u64 {
        let database = database.clone();
        tasks.spawn(async move {
            let mut committed = 0;
            for round in 0..10 {
                let fence = Fence::new("k", 1 + round * 8 + holder);
                loop {
                    let section = transaction(&fence, &database, async |tx| {
                        D::count_up(tx, &fence).await?;
                        Ok(D::write(tx, &fence).await?)
                    });
                    match section.await {
                        Ok(()) => break committed += 1,
                        Err(Failure::Fence(FenceError::Stale { .. })) => break,
                        // A deadlock, or a snapshot that is too old: nothing was committed.
                        Err(Failure::Fence(FenceError::NotCommitted { .. }) | Failure::Statement(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
            committed
        });
    }
    let committed: usize = tasks.join_all().await.into_iter().sum();
    let written = database.written("k").await;
    assert!(written.is_sorted(), "{written:?}");
    assert_eq!(written.len(), committed);
    assert_eq!(database.counted("k").await, i64::try_from(committed).unwrap());
}

async fn tokens_that_are_no_number_of_the_database_are_refused<D: World>(database: &D) {
    let result = write(database, Fence::new("k", u64::MAX)).await;
    assert!(matches!(result, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{result:?}");
    assert_eq!(database.written("k").await, [0; 0]);
}

async fn the_table_may_be_made_by_many_at_once<D: World>(database: &D) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let database = database.clone();
        tasks.spawn(async move { migrate(&database).await.map_err(|error| error.to_string()) });
    }
    for made in tasks.join_all().await {
        made.unwrap();
    }
}

/// The future of a section moves between threads.
#[test]
fn sections_are_send() {
    fn is_send(_: impl Send) {}
    fn section(pool: sqlx::PgPool, fence: Fence) {
        is_send(async move {
            transaction(&fence, &pool, async |tx| {
                sqlx::query("SELECT 1").execute(&mut *tx).await?;
                Ok::<_, Failure>(())
            })
            .await
        });
    }
    let _: fn(sqlx::PgPool, Fence) = section;
}

each_database! {
    [a_holder_that_was_overtaken_changes_nothing
     what_is_not_committed_neither_writes_nor_raises_the_token
     transactions_commit_in_the_order_of_their_tokens
     many_at_once_lose_nothing_and_keep_the_order
     tokens_that_are_no_number_of_the_database_are_refused
     the_table_may_be_made_by_many_at_once]
    postgres: postgres_at("read committed");
    postgres_repeatable_read: postgres_at("repeatable read");
    postgres_serializable: postgres_at("serializable");
    mariadb: mariadb_at("REPEATABLE READ");
    mariadb_read_uncommitted: mariadb_at("READ UNCOMMITTED");
    mariadb_read_committed: mariadb_at("READ COMMITTED");
    mariadb_serializable: mariadb_at("SERIALIZABLE");
    on_sqlite: sqlite();
}
