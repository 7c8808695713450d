//! Runs that are executed once, on every database.

use std::time::Duration;

use distlock_fence::{Fence, FenceError, FencedDatabase, MAX_RESULT, Once, OnceDatabase, Outcome, Stored};
use sea_orm::SqlxMySqlConnector;
use sqlx::{MySqlPool, PgPool};

use crate::libraries::On;
use crate::libraries::asynchronous::{deadpool_postgres, diesel_async, diesel_async_singly, tokio_postgres};
use crate::libraries::blocking::{diesel_on_postgres, diesel_on_sqlite, rusqlite};
use crate::libraries::pools::{
    mysql_async_on_mariadb, sea_orm_on_mariadb, sea_orm_on_postgres, sea_orm_on_sqlite, sqlx_at,
};
use crate::library::{Failure, Library, OnceLibrary, Plan};
use crate::world::{World, mariadb_at, mariadb_url, postgres_at, sqlite};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A run whose effect and result are the token.
async fn run<L: OnceLibrary>(library: &L, fence: &Fence, request: &Once) -> Result<(u64, Outcome), Failure> {
    library.once(fence, request, Ok(fence.token())).await.map(|done| (done.value, done.outcome))
}

async fn a_repeated_request_gets_the_first_result<L: OnceLibrary>(library: &L) {
    let request = Once::new(DAY);
    assert_eq!(run(library, &Fence::new("k", 1), &request).await.unwrap(), (1, Outcome::FirstRun));
    for token in 1..4 {
        let again = run(library, &Fence::new("k", token), &request).await.unwrap();
        assert_eq!(again, (1, Outcome::Replay));
    }
    assert_eq!(run(library, &Fence::new("other", 1), &request).await.unwrap(), (1, Outcome::FirstRun));
    assert_eq!(library.observer().written("k").await, [1]);
}

async fn what_fails_is_run_again<L: OnceLibrary>(library: &L) {
    let (fence, request) = (Fence::new("k", 1), Once::new(DAY));
    let failed = library.once(&fence, &request, Err::<u64, _>(Failure::Refused));
    assert!(matches!(failed.await, Err(Failure::Refused)));
    assert_eq!(run(library, &Fence::new("k", 2), &request).await.unwrap(), (2, Outcome::FirstRun));
    assert_eq!(library.observer().written("k").await, [2]);
}

async fn other_arguments_are_refused<L: OnceLibrary>(library: &L) {
    let of = |arguments: (u32, &str)| Once::new(DAY).arguments(&arguments);
    run(library, &Fence::new("k", 1), &of((1, "a"))).await.unwrap();
    let other = run(library, &Fence::new("k", 2), &of((1, "b"))).await;
    let refused = Err::<(), _>(other.unwrap_err());
    assert!(
        matches!(&refused, Err(Failure::Fence(FenceError::OtherArguments { key })) if key == "k"),
        "{refused:?}"
    );
    assert_eq!(run(library, &Fence::new("k", 3), &of((1, "a"))).await.unwrap(), (1, Outcome::Replay));
    // The option was removed since then.
    let without = run(library, &Fence::new("k", 4), &Once::new(DAY)).await.unwrap();
    assert_eq!(without, (1, Outcome::Replay));
}

async fn a_result_whose_time_is_over_is_no_result<L: OnceLibrary>(library: &L) {
    let over = Once::new(Duration::ZERO);
    run(library, &Fence::new("k", 1), &over).await.unwrap();
    assert_eq!(run(library, &Fence::new("k", 2), &over).await.unwrap(), (2, Outcome::FirstRun));
    run(library, &Fence::new("kept", 1), &Once::new(Duration::MAX)).await.unwrap();
    assert_eq!(library.prune().await, 1);
    assert_eq!(run(library, &Fence::new("kept", 2), &over).await.unwrap(), (1, Outcome::Replay));
    assert_eq!(library.observer().written("k").await, [1, 2]);
}

async fn results_are_stored_up_to_their_limit<L: OnceLibrary>(library: &L) {
    let (fence, request) = (Fence::new("k", 1), Once::new(DAY));
    // Quotation marks are part of the JSON.
    for (length, fits) in [(MAX_RESULT - 1, false), (MAX_RESULT - 2, true)] {
        match library.once(&fence, &request, Ok("x".repeat(length))).await {
            Ok(done) => assert!(fits && done.value.len() == length),
            Err(Failure::Fence(FenceError::TooLarge { bytes, .. })) => {
                assert!(!fits && bytes == MAX_RESULT + 1);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(library.observer().written("k").await, [1]);
}

async fn a_result_of_another_type_is_no_reason_to_run_again<L: OnceLibrary>(library: &L) {
    let (fence, request) = (Fence::new("k", 1), Once::new(DAY));
    run(library, &fence, &request).await.unwrap();
    let read = library.once(&fence, &request, Ok(String::from("text"))).await.map(|done| done.value);
    assert!(matches!(read, Err(Failure::Fence(FenceError::Unreadable { .. }))), "{read:?}");
}

/// JSON has no number for them: null is written, which is not read as a number.
async fn a_result_that_cannot_be_read_back_is_not_committed<L: OnceLibrary>(library: &L) {
    let (fence, request) = (Fence::new("k", 1), Once::new(DAY));
    for number in [f64::NAN, f64::INFINITY] {
        let lost = library.once(&fence, &request, Ok(vec![1.0, number])).await;
        let Err(Failure::Fence(FenceError::NotCommitted { source, .. })) = &lost else { panic!("{lost:?}") };
        assert!(source.to_string().contains("cannot be read back"), "{source}");
    }
    assert_eq!(library.observer().written("k").await, [0; 0]);
    // The next run is the first one.
    let done = library.once(&fence, &request, Ok(vec![1.0])).await.unwrap();
    assert_eq!(done.outcome, Outcome::FirstRun);
}

async fn a_replay_has_the_same_number<L: OnceLibrary>(library: &L) {
    let request = Once::new(DAY);
    // A parser that rounds twice reads the neighbours of the first two.
    for number in [31.245_270_191_439_438, 121.487_919_511_619_45, f64::MIN_POSITIVE, f64::MAX] {
        let fence = Fence::new(format!("{number:e}"), 1);
        for outcome in [Outcome::FirstRun, Outcome::Replay] {
            let done = library.once(&fence, &request, Ok(number)).await.unwrap();
            assert_eq!((done.value.to_bits(), done.outcome), (f64::to_bits(number), outcome), "{number}");
        }
    }
}

/// Requests without a lock, which is the worst failure of a lock. The earlier ones are committed while the later ones
/// search for a result, begin, or wait for the row.
async fn many_at_once_run_once<L: OnceLibrary>(library: &L) {
    for round in 0..5_u64 {
        let key = format!("k{round}");
        let mut tasks = tokio::task::JoinSet::new();
        for token in 1..=8_u64 {
            let (library, fence) = (library.clone(), Fence::new(key.as_str(), token));
            tasks.spawn(async move {
                loop {
                    match run(&library, &fence, &Once::new(DAY)).await {
                        Ok(done) => break Some(done),
                        Err(Failure::Fence(FenceError::Stale { .. })) => break None,
                        // Nothing was committed because of a deadlock, or because the snapshot is too old.
                        Err(Failure::Fence(FenceError::NotCommitted { .. }) | Failure::Statement(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
        let done: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
        assert_eq!(done.iter().filter(|(_, outcome)| !outcome.is_replay()).count(), 1, "{done:?}");
        let written = library.observer().written(&key).await;
        assert_eq!(written.len(), 1, "{written:?}");
        let values = done.iter().map(|(value, _)| i64::try_from(*value).unwrap());
        assert!(values.into_iter().all(|value| value == written[0]), "{done:?}");
    }
}

/// A result is stored and rolled back, at a level at which others may read it in between.
async fn a_result_that_is_rolled_back_is_no_result<L: OnceLibrary<Observer = MySqlPool>>(library: &L) {
    let (pool, request, fence) = (library.observer(), Once::new(DAY), Fence::new("k", 1));
    let mut first = FencedDatabase::begin(pool, &fence).await.unwrap();
    let stored = Stored { result: "1".to_owned(), arguments: None };
    MySqlPool::store(&mut first, &fence, &stored, DAY).await.unwrap();

    let (copy, its) = (library.clone(), fence.clone());
    let second = tokio::spawn(async move { run(&copy, &its, &request).await });
    let reads = "SELECT count(*) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND command <> 'Sleep' AND info LIKE 'SELECT result%'";
    while !second.is_finished() && sqlx::query_scalar::<_, i64>(reads).fetch_one(pool).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    MySqlPool::roll_back(first).await;
    assert_eq!(second.await.unwrap().unwrap(), (1, Outcome::FirstRun));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_rolled_back_is_no_result_with_sqlx() {
    let (library, _its) = observed(mariadb_at("READ UNCOMMITTED")).await;
    a_result_that_is_rolled_back_is_no_result(&library).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_rolled_back_is_no_result_with_sea_orm() {
    let (pool, _its) = mariadb_at("READ UNCOMMITTED").await;
    let library = On::new(SqlxMySqlConnector::from_sqlx_mysql_pool(pool.clone()), pool);
    a_result_that_is_rolled_back_is_no_result(&library).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_is_rolled_back_is_no_result_with_mysql_async() {
    let (pool, options) = mariadb_at("READ UNCOMMITTED").await;
    let url = mysql_async::Opts::from_url(&mariadb_url(&options)).unwrap();
    let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
    let options = mysql_async::OptsBuilder::from_opts(url).setup(vec![level]);
    a_result_that_is_rolled_back_is_no_result(&On::new(mysql_async::Pool::new(options), pool)).await;
}

/// The planner reads the whole table only if it must.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_results_on_postgres_are_found_by_their_index() {
    let (pool, options) = postgres_at("read committed").await;
    let unwilling = PgPool::connect_with(options.options([("enable_seqscan", "off")])).await.unwrap();
    let scans = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'distlock_once_expires'";
    let is_used = async {
        // The server reports its scans with a delay.
        while sqlx::query_scalar::<_, i64>(scans).fetch_one(&pool).await.unwrap() == 0 {
            distlock_fence::prune(&unwilling).await.unwrap();
        }
    };
    tokio::time::timeout(distlock_fixtures::BOUND, is_used).await.expect("the index is used");
}

const BOOK: &str = include_str!("../../docs/book/src/with-a-database.md");

/// The statement of the book that deletes fences of expired results, with the time and the column of a database.
fn deletion(time: &str, key: &str) -> String {
    let (_, statement) = BOOK.split_once("```sql\nDELETE FROM distlock_fence WHERE").unwrap();
    let (statement, _) = statement.split_once("```").unwrap();
    let on_postgres = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";
    assert!(BOOK.contains(&format!("| `{time}` |")) && BOOK.contains(key), "{time}, {key}");
    assert_eq!((statement.matches(on_postgres).count(), statement.matches(".key").count()), (1, 2));
    let statement = statement.replace(on_postgres, time).replace(".key", &format!(".{key}"));
    format!("DELETE FROM distlock_fence WHERE{statement}")
}

async fn fences_of_expired_results_can_be_deleted<L: OnceLibrary>(
    library: &L,
    deleted: impl Future<Output = u64>,
) {
    let (over, kept) = (Once::new(Duration::ZERO), Once::new(DAY));
    run(library, &Fence::new("over", 2), &over).await.unwrap();
    run(library, &Fence::new("kept", 2), &kept).await.unwrap();
    library.section(&Fence::new("not stored", 2), Plan::default()).await.unwrap();
    run(library, &Fence::new("later", 1), &over).await.unwrap();
    library.section(&Fence::new("later", 2), Plan::default()).await.unwrap();
    assert_eq!(deleted.await, 1);
    assert_eq!(library.prune().await, 2);
    for key in ["kept", "not stored", "later"] {
        let late = library.section(&Fence::new(key, 1), Plan::default()).await;
        assert!(matches!(late, Err(Failure::Fence(FenceError::Stale { newest: 2, .. }))), "{key}: {late:?}");
    }
    // This is why a holder must not be paused for longer than a result is kept.
    library.section(&Fence::new("over", 1), Plan::default()).await.unwrap();
}

/// Each database executes the statement of the book.
macro_rules! deletes_fences {
    ($($test:ident: $open:expr, $time:expr, $key:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let (library, _its) = observed($open).await;
            let statement = deletion($time, $key);
            let delete = async {
                sqlx::query(&statement).execute(library.observer()).await.unwrap().rows_affected()
            };
            fences_of_expired_results_can_be_deleted(&library, delete).await;
        }
    )*};
}

deletes_fences! {
    fences_of_expired_results_on_postgres: postgres_at("read committed"),
        "(extract(epoch FROM statement_timestamp()) * 1000)::bigint", "key";
    fences_of_expired_results_on_mariadb: mariadb_at("REPEATABLE READ"),
        "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000", "`key`";
    fences_of_expired_results_on_sqlite: sqlite(),
        "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", "key";
}

/// A pool of sqlx, which is also the observer of its database.
async fn observed<D: World, I>(open: impl Future<Output = (D, I)>) -> (On<D, D>, I) {
    let (pool, its) = open.await;
    (sqlx_at(pool.clone(), pool), its)
}

each_database! {
    [a_repeated_request_gets_the_first_result
     what_fails_is_run_again
     other_arguments_are_refused
     a_result_whose_time_is_over_is_no_result
     results_are_stored_up_to_their_limit
     a_result_of_another_type_is_no_reason_to_run_again
     a_result_that_cannot_be_read_back_is_not_committed
     a_replay_has_the_same_number
     many_at_once_run_once]
    postgres: observed(postgres_at("read committed"));
    postgres_repeatable_read: observed(postgres_at("repeatable read"));
    mariadb: observed(mariadb_at("REPEATABLE READ"));
    mariadb_read_committed: observed(mariadb_at("READ COMMITTED"));
    on_sqlite: observed(sqlite());
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
