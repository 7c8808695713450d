//! Data in the same PostgreSQL database as the locks. Its transactions check the lock itself, too.

use std::time::Duration;

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::deadpool::Pool as AsyncPool;
use distlock::{LockManager, distributed_lock};
use distlock_fence::{AssertHeld, Fence, FenceError, Once, SameDatabase};
use sea_orm::DatabaseConnection;
use sqlx::PgPool;
use tokio::sync::oneshot;

use crate::libraries::On;
use crate::libraries::asynchronous::{
    ClientBesideLock, deadpool_postgres_at, diesel_async_at, tokio_postgres_beside_lock_at,
};
use crate::libraries::blocking::{DieselPool, diesel_pool_at, step_on_postgres};
use crate::libraries::pools::sea_orm_at;
use crate::library::{End, Failure, Library, OnceLibrary, Plan, Step, Steps};
use crate::world::{World, postgres};

impl<D: AssertHeld + Steps> Steps for SameDatabase<D> {
    async fn step(connection: &mut Self::Connection, fence: &Fence, step: Step) -> Result<(), Failure> {
        D::step(connection, fence, step).await
    }
}

/// A library that checks the lock, and the URL of the database.
type Beside<P> = (On<P, PgPool>, String);

async fn with_sqlx() -> Beside<SameDatabase<PgPool>> {
    let (pool, url) = postgres().await;
    (On::new(SameDatabase::new(pool.clone()), pool), url)
}

async fn with_deadpool_postgres() -> Beside<SameDatabase<deadpool_postgres::Pool>> {
    let (observer, url) = postgres().await;
    let pool = deadpool_postgres_at(observer.clone(), &url).pool().clone();
    (On::new(SameDatabase::new(pool), observer), url)
}

async fn with_diesel_async() -> Beside<SameDatabase<AsyncPool<AsyncPgConnection>>> {
    let (observer, url) = postgres().await;
    let pool = diesel_async_at(observer.clone(), &url).pool().clone();
    (On::new(SameDatabase::new(pool), observer), url)
}

async fn with_diesel() -> Beside<SameDatabase<DieselPool>> {
    let (observer, url) = postgres().await;
    (On::new(SameDatabase::new(diesel_pool_at(&url)), observer), url)
}

async fn with_sea_orm() -> Beside<SameDatabase<DatabaseConnection>> {
    let (observer, url) = postgres().await;
    let pool = sea_orm_at(observer.clone(), &url).await.pool().clone();
    (On::new(SameDatabase::new(pool), observer), url)
}

async fn with_tokio_postgres() -> Beside<ClientBesideLock> {
    let (observer, url) = postgres().await;
    (tokio_postgres_beside_lock_at(observer, url.clone()), url)
}

async fn locks(url: &str) -> LockManager {
    LockManager::connect(url).await.unwrap()
}

fn is_not_held(result: &Result<(), Failure>, fence: &Fence) -> bool {
    matches!(result, Err(Failure::Fence(FenceError::NotHeld { key, token }))
        if key == fence.key() && *token == fence.token())
}

async fn write<L: Library>(library: &L, fence: &Fence) -> Result<(), Failure> {
    library.section(fence, Plan::default()).await
}

/// This holds whether or not another holder has acquired the lock since then.
async fn a_holder_that_has_lost_its_lock_is_stale<L: Library<Observer = PgPool>>(
    (library, url): (L, String),
) {
    let locks = locks(&url).await;
    let guard = locks.lock("k").fenced().acquire().await.unwrap();
    let first = guard.fence().unwrap();
    write(&library, &first).await.unwrap();
    write(&library, &first).await.unwrap();
    let refused = library.section(&first, Plan::ending(End::Refuse)).await;
    assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
    guard.release().await.unwrap();
    let late = write(&library, &first).await;
    assert!(is_not_held(&late, &first), "{late:?}");

    let guard = locks.lock("k").fenced().acquire().await.unwrap();
    let late = write(&library, &first).await;
    assert!(is_not_held(&late, &first), "{late:?}");
    let second = guard.fence().unwrap();
    write(&library, &second).await.unwrap();
    let tokens = [&first, &first, &second].map(|fence| i64::try_from(fence.token()).unwrap());
    assert_eq!(library.observer().written("k").await, tokens);
    guard.release().await.unwrap();
}

/// The older holder's transaction is open when the process hands its lease to the next section, without a command to
/// the server: the lock accepts both tokens, and does not make the one transaction wait for the other.
async fn holders_of_one_lease_commit_in_the_order_of_their_tokens<L: Library<Observer = PgPool>>(
    (library, url): (L, String),
) {
    let locks = locks(&url).await;
    let request = || locks.lock("k").fenced().linger(Duration::from_secs(1));
    let (guard, first, later) = loop {
        let guard = request().wait_forever().acquire().await.unwrap();
        let first = guard.fence().unwrap();
        let (copy, its, (checked, is_checked)) = (library.clone(), first.clone(), oneshot::channel());
        let (go, may_go) = oneshot::channel();
        let plan = Plan { pause: Some((checked, may_go)), ..Plan::default() };
        let older = tokio::spawn(async move { copy.section(&its, plan).await });
        is_checked.await.unwrap();
        guard.release().await.unwrap();
        // On a slow machine, the process may have released its lease. Then the server grants no other one until the
        // transaction ends.
        let next = request().no_wait().acquire().await;
        let later = next.as_ref().ok().map(|guard| {
            let (copy, its) = (library.clone(), guard.fence().unwrap());
            tokio::spawn(async move { write(&copy, &its).await })
        });
        if let Some(later) = &later {
            while !library.observer().waits().await {
                assert!(!later.is_finished(), "the later holder has not waited");
                tokio::task::yield_now().await;
            }
        }
        go.send(()).unwrap();
        older.await.unwrap().unwrap();
        if let (Ok(guard), Some(later)) = (next, later) {
            break (guard, first, later);
        }
    };
    later.await.unwrap().unwrap();
    let second = guard.fence().unwrap();
    // The lock accepts the older token, too.
    let assert = sqlx::query("SELECT distlock.assert_held_1($1, $2)").bind("k");
    assert.bind(i64::try_from(first.token()).unwrap()).execute(library.observer()).await.unwrap();
    let late = write(&library, &first).await;
    assert!(
        matches!(&late, Err(Failure::Fence(FenceError::Stale { key, token, newest }))
            if key == "k" && *token == first.token() && *newest == second.token()),
        "{late:?}"
    );
    let written = library.observer().written("k").await;
    let tokens = [&first, &second].map(|fence| i64::try_from(fence.token()).unwrap());
    assert!(written.is_sorted() && written.ends_with(&tokens), "{written:?}");
    guard.release().await.unwrap();
}

async fn without_the_table_nothing_is_written<L: Library<Observer = PgPool>>((library, url): (L, String)) {
    sqlx::raw_sql("DROP TABLE distlock_fence").execute(library.observer()).await.unwrap();
    let guard = locks(&url).await.lock("k").fenced().acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    let failed = write(&library, &fence).await;
    let Err(Failure::Fence(FenceError::NotCommitted { source, .. })) = failed else { panic!("{failed:?}") };
    // Some libraries name the table in the source of the error.
    let named = format!("{source} {source:?}");
    assert!(named.contains("distlock_fence"), "{named}");
    library.make_table().await.unwrap();
    write(&library, &fence).await.unwrap();
    assert_eq!(library.observer().written("k").await.len(), 1);
    guard.release().await.unwrap();
}

/// From the check to the commit, no other process gets the lock, although its holder has lost it.
async fn a_lock_that_is_lost_before_the_commit_is_given_to_nobody_until_then<L: Library>(
    (library, url): (L, String),
) {
    let (one, other) = (locks(&url).await, locks(&url).await);
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    let first = guard.fence().unwrap();
    let (copy, its, (checked, is_checked)) = (library.clone(), first.clone(), oneshot::channel());
    let (go, may_go) = oneshot::channel();
    let plan = Plan { pause: Some((checked, may_go)), ..Plan::default() };
    let section = tokio::spawn(async move { copy.section(&its, plan).await });
    is_checked.await.unwrap();
    assert!(other.force_release("k").await.unwrap());
    assert!(other.lock("k").no_wait().acquire().await.unwrap_err().is_busy());
    let next = tokio::spawn(other.lock("k").fenced().wait_forever().acquire());
    go.send(()).unwrap();
    section.await.unwrap().unwrap();
    let next = next.await.unwrap().unwrap();
    let second = next.fence().unwrap();
    write(&library, &second).await.unwrap();
    let tokens = [&first, &second].map(|fence| i64::try_from(fence.token()).unwrap());
    assert_eq!(library.observer().written("k").await, tokens);
    let late = write(&library, &first).await;
    assert!(is_not_held(&late, &first), "{late:?}");
    next.release().await.unwrap();
}

/// A dropped transaction delays no other process, and changes nothing.
async fn what_is_not_committed_lets_the_lock_go<L: Library>((library, url): (L, String)) {
    if L::BLOCKS {
        return;
    }
    let locks = locks(&url).await;
    let guard = locks.lock("k").fenced().acquire().await.unwrap();
    let (copy, its, (wrote, has_written)) = (library.clone(), guard.fence().unwrap(), oneshot::channel());
    let dropped = tokio::spawn(async move { copy.section(&its, Plan::ending(End::Hang(wrote))).await });
    has_written.await.unwrap();
    dropped.abort();
    assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
    guard.release().await.unwrap();
    let guard = locks.lock("k").fenced().wait_forever().acquire().await.unwrap();
    write(&library, &guard.fence().unwrap()).await.unwrap();
    assert_eq!(library.observer().written("k").await.len(), 1);
    guard.release().await.unwrap();
}

/// Even if the database has no tables of locks.
async fn locks_that_are_elsewhere_are_not_held<L: Library>((library, _url): (L, String)) {
    let (_, elsewhere) = postgres().await;
    let guard = locks(&elsewhere).await.lock("k").fenced().acquire().await.unwrap();
    let failed = write(&library, &guard.fence().unwrap()).await;
    assert!(matches!(failed, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{failed:?}");
    assert_eq!(library.observer().written("k").await, [0; 0]);
    guard.release().await.unwrap();
}

macro_rules! each_library {
    ($($rule:ident)*) => {$(
        mod $rule {
            each_library!(@ $rule: with_sqlx with_deadpool_postgres with_diesel with_diesel_async with_sea_orm
                with_tokio_postgres);
        }
    )*};
    (@ $rule:ident: $($library:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $library() {
            super::$rule(super::$library().await).await;
        }
    )*};
}

each_library! {
    a_holder_that_has_lost_its_lock_is_stale
    holders_of_one_lease_commit_in_the_order_of_their_tokens
    without_the_table_nothing_is_written
    a_lock_that_is_lost_before_the_commit_is_given_to_nobody_until_then
    what_is_not_committed_lets_the_lock_go
    locks_that_are_elsewhere_are_not_held
}

/// Its name needs quotation marks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_locks_may_be_in_another_schema() {
    let (pool, url) = postgres().await;
    let locks = locks(&format!("{url}?schema=Locks-1")).await;
    let guard = locks.lock("k").fenced().acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    let there = On::new(SameDatabase::in_schema(pool.clone(), "Locks-1"), pool.clone());
    write(&there, &fence).await.unwrap();
    let elsewhere = On::new(SameDatabase::new(pool.clone()), pool);
    let failed = write(&elsewhere, &fence).await;
    assert!(matches!(failed, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{failed:?}");
    guard.release().await.unwrap();
}

/// Several transactions of one holder. The row of the fence makes one wait for the other.
async fn calls_of_one_holder_run_once<L: OnceLibrary<Observer = PgPool>>((library, url): (L, String)) {
    let locks = locks(&url).await;
    let guard = locks.lock("k").fenced().acquire().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..6 {
        let (library, fence) = (library.clone(), guard.fence().unwrap());
        tasks.spawn(async move {
            let request = Once::new(Duration::from_secs(60));
            library.once(&fence, &request, Ok(number)).await.unwrap().value
        });
    }
    let values = tasks.join_all().await;
    assert!(values.windows(2).all(|two| two[0] == two[1]), "{values:?}");
    assert_eq!(library.observer().written("k").await.len(), 1);
    guard.release().await.unwrap();
}

mod one_holder {
    each_library!(@ calls_of_one_holder_run_once: with_sqlx with_deadpool_postgres with_diesel with_diesel_async
        with_sea_orm);
}

#[distributed_lock(key = "k", wait = "1h", manager = locks, transaction = tx in pool, fence = fence)]
async fn add(locks: &LockManager, pool: &SameDatabase<PgPool>) -> Result<(), Failure> {
    PgPool::step(tx, &fence, Step::Write).await?;
    PgPool::step(tx, &fence, Step::CountUp).await
}

#[distributed_lock(key = "k", manager = locks, transaction = tx in pool, fence = fence)]
fn write_on_this_thread(locks: &LockManager, pool: &SameDatabase<DieselPool>) -> Result<(), Failure> {
    step_on_postgres(tx, &fence, Step::Write)
}

#[distributed_lock(key = "k", manager = locks, transaction = tx in pool, fence = fence, once = "24h")]
fn write_once_on_this_thread(locks: &LockManager, pool: &SameDatabase<DieselPool>) -> Result<u64, Failure> {
    step_on_postgres(tx, &fence, Step::Write)?;
    Ok(fence.token())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotated_functions_that_block_ask_the_lock() {
    let (library, url) = with_diesel().await;
    let (locks, pool) = (locks(&url).await, library.pool().clone());
    let (its_locks, its_pool) = (locks.clone(), pool.clone());
    let first = tokio::task::spawn_blocking(move || write_on_this_thread(&its_locks, &its_pool));
    first.await.unwrap().unwrap();
    for _ in 0..2 {
        let (locks, pool) = (locks.clone(), pool.clone());
        let again = tokio::task::spawn_blocking(move || write_once_on_this_thread(&locks, &pool));
        again.await.unwrap().unwrap();
    }
    assert_eq!(library.observer().written("k").await.len(), 2);
}

/// Two managers instead of two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn annotated_functions_commit_in_the_order_of_their_tokens() {
    let (library, url) = with_sqlx().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let locks = locks(&url).await;
        for _ in 0..4 {
            let (locks, pool) = (locks.clone(), library.pool().clone());
            tasks.spawn(async move {
                for _ in 0..5 {
                    add(&locks, &pool).await.unwrap();
                }
            });
        }
    }
    tasks.join_all().await;
    let written = library.observer().written("k").await;
    assert!(written.is_sorted(), "{written:?}");
    assert_eq!((written.len(), library.observer().counted("k").await), (40, 40));
}
