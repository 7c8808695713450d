//! The rules for every library, every database and every isolation level.

use distlock_fence::{Fence, FenceError};
use tokio::sync::oneshot;

use crate::libraries::asynchronous::{deadpool_postgres, diesel_async, diesel_async_singly, tokio_postgres};
use crate::libraries::blocking::{diesel_on_postgres, diesel_on_sqlite, rusqlite};
use crate::libraries::pools::{
    mysql_async_on_mariadb, sea_orm_on_mariadb, sea_orm_on_postgres, sea_orm_on_sqlite,
};
use crate::library::{End, Failure, Library, Plan, Step};
use crate::world::{World, mariadb_at, postgres_at, sqlite};

/// Runs one section of one holder.
async fn write<L: Library>(database: &L, fence: Fence) -> Result<(), Failure> {
    database.section(&fence, Plan::default()).await
}

/// Runs one section of one holder, and retries it, because the snapshot of a transaction that waited may be too old.
async fn write_at_last<L: Library>(database: &L, fence: Fence) -> Result<(), Failure> {
    loop {
        match write(database, fence.clone()).await {
            Err(Failure::Fence(FenceError::NotCommitted { .. })) => {}
            other => break other,
        }
    }
}

fn is_stale(result: &Result<(), Failure>, token: u64, newest: u64) -> bool {
    matches!(result, Err(Failure::Fence(FenceError::Stale { key, token: its, newest: seen }))
        if key == "k" && *its == token && *seen == newest)
}

async fn a_holder_that_was_overtaken_changes_nothing<L: Library>(database: &L) {
    write(database, Fence::new("k", 2)).await.unwrap();
    // Another transaction of the same holder.
    write(database, Fence::new("k", 2)).await.unwrap();
    let late = write(database, Fence::new("k", 1)).await;
    assert!(is_stale(&late, 1, 2), "{late:?}");
    write(database, Fence::new("k", 3)).await.unwrap();
    // Keys that a database might treat as equal.
    for key in ["K", "k ", "k\u{301}"] {
        write(database, Fence::new(key, 1)).await.unwrap();
    }
    assert_eq!(database.observer().written("k").await, [2, 2, 3]);
}

async fn what_is_not_committed_neither_writes_nor_raises_the_token<L: Library>(database: &L) {
    let fence = Fence::new("k", 9);
    let refused = database.section(&fence, Plan::ending(End::Refuse)).await;
    assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");

    let (copy, its) = (database.clone(), fence.clone());
    let panicked = tokio::spawn(async move { copy.section(&its, Plan::ending(End::Panic)).await });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));

    if !L::BLOCKS {
        let (copy, (wrote, has_written)) = (database.clone(), oneshot::channel());
        let dropped = tokio::spawn(async move { copy.section(&fence, Plan::ending(End::Hang(wrote))).await });
        has_written.await.unwrap();
        dropped.abort();
        assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
    }

    write(database, Fence::new("k", 1)).await.unwrap();
    assert_eq!(database.observer().written("k").await, [1]);
}

/// The older transaction is open when the later holder begins. The older one commits first.
async fn transactions_commit_in_the_order_of_their_tokens<L: Library>(database: &L) {
    let (copy, fence, (checked, is_checked)) = (database.clone(), Fence::new("k", 1), oneshot::channel());
    let (go, may_go) = oneshot::channel();
    let plan = Plan { pause: Some((checked, may_go)), ..Plan::default() };
    let older = tokio::spawn(async move { copy.section(&fence, plan).await });
    is_checked.await.unwrap();
    let copy = database.clone();
    let later = tokio::spawn(async move { write_at_last(&copy, Fence::new("k", 2)).await });
    // Gives the later one a chance to reach the database. The test is correct in every order.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    older.await.unwrap().unwrap();
    later.await.unwrap().unwrap();
    assert_eq!(database.observer().written("k").await, [1, 2]);
}

/// The later transaction is dropped while it waits for the older one, so no task reads the reply that it waits for.
async fn a_section_that_is_dropped_in_a_statement_disturbs_no_other<L: Library>(database: &L) {
    if L::BLOCKS {
        return;
    }
    let (copy, fence, (checked, is_checked)) = (database.clone(), Fence::new("k", 1), oneshot::channel());
    let (go, may_go) = oneshot::channel();
    let plan = Plan { pause: Some((checked, may_go)), ..Plan::default() };
    let older = tokio::spawn(async move { copy.section(&fence, plan).await });
    is_checked.await.unwrap();
    let copy = database.clone();
    let later = tokio::spawn(async move { write(&copy, Fence::new("k", 2)).await });
    while !database.observer().waits().await {
        tokio::task::yield_now().await;
    }
    later.abort();
    assert!(later.await.is_err_and(|error| error.is_cancelled()));
    go.send(()).unwrap();
    older.await.unwrap().unwrap();
    // No connection has a rest of the dropped transaction.
    for token in 1..10 {
        let one = write_at_last(database, Fence::new("one", token));
        let another = write_at_last(database, Fence::new("another", token));
        let (one, another) = tokio::join!(one, another);
        one.unwrap();
        another.unwrap();
    }
    for (key, tokens) in [("k", 1..2), ("one", 1..10), ("another", 1..10)] {
        assert_eq!(database.observer().written(key).await, tokens.collect::<Vec<i64>>());
    }
}

/// Holders without a lock, which is the worst failure of a lock.
async fn many_at_once_lose_nothing_and_keep_the_order<L: Library>(database: &L) {
    let mut tasks = tokio::task::JoinSet::new();
    for holder in 0..8_u64 {
        let database = database.clone();
        tasks.spawn(async move {
            let mut committed = 0;
            for round in 0..10 {
                let fence = Fence::new("k", 1 + round * 8 + holder);
                loop {
                    match database.section(&fence, Plan::before(Step::CountUp)).await {
                        Ok(()) => break committed += 1,
                        Err(Failure::Fence(FenceError::Stale { .. })) => break,
                        // Nothing was committed because of a deadlock, or because the snapshot is too old.
                        Err(Failure::Fence(FenceError::NotCommitted { .. }) | Failure::Statement(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
            committed
        });
    }
    let committed: usize = tasks.join_all().await.into_iter().sum();
    let written = database.observer().written("k").await;
    assert!(written.is_sorted(), "{written:?}");
    assert_eq!(written.len(), committed);
    assert_eq!(database.observer().counted("k").await, i64::try_from(committed).unwrap());
}

async fn tokens_that_are_no_number_of_the_database_are_refused<L: Library>(database: &L) {
    let result = write(database, Fence::new("k", u64::MAX)).await;
    assert!(matches!(result, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{result:?}");
    assert_eq!(database.observer().written("k").await, [0; 0]);
}

async fn the_table_may_be_made_by_many_at_once<L: Library>(database: &L) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let database = database.clone();
        tasks.spawn(async move { database.make_table().await.map_err(|error| error.to_string()) });
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
            distlock_fence::transaction(&fence, &pool, async |tx| {
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
     a_section_that_is_dropped_in_a_statement_disturbs_no_other
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
    with_deadpool_postgres: deadpool_postgres();
    with_diesel_async: diesel_async();
    with_diesel_async_singly: diesel_async_singly();
    with_diesel_on_postgres: diesel_on_postgres();
    with_diesel_on_sqlite: diesel_on_sqlite();
    with_mysql_async: mysql_async_on_mariadb();
    with_rusqlite: rusqlite();
    with_sea_orm_on_mariadb: sea_orm_on_mariadb();
    with_sea_orm_on_postgres: sea_orm_on_postgres();
    with_sea_orm_on_sqlite: sea_orm_on_sqlite();
    with_tokio_postgres: tokio_postgres();
}
