//! A worker process, which runs several sections of annotated functions at once. It is a second process of this test
//! program, with the test `works`, so it can be stopped and killed.

use std::fmt;
use std::io::{BufRead, Write as _};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use distlock::fence::{FenceError, Outcome, transaction};
use distlock::{LockManager, distributed_lock};
use distlock_fence::OnceDatabase;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::sync::mpsc;

use crate::library::{Failure, Step};
use crate::world::World;

/// The URLs of the locks and of the database.
pub(super) const LOCKS: &str = "FENCE_LOCKS";
pub(super) const DATABASE: &str = "FENCE_DATABASE";

/// The duration of the leases. If a process is stopped for longer, another one acquires its locks.
pub(super) const TTL: Duration = Duration::from_secs(1);

/// A section, as one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Job {
    /// Increments the counter of this name, by a read and a write.
    Add(String),
    /// Increments the counter as a holder that continues after it has lost its lock.
    Late(String),
    /// Executes the request of this name, which must be executed once.
    Once(String),
}

impl Job {
    /// The key of its lock.
    pub(super) fn name(&self) -> &str {
        let (Job::Add(name) | Job::Late(name) | Job::Once(name)) = self;
        name
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Job::Add(name) => write!(f, "add {name}"),
            Job::Late(name) => write!(f, "late {name}"),
            Job::Once(name) => write!(f, "once {name}"),
        }
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        match line.split_once(' ') {
            Some(("add", name)) => Ok(Job::Add(name.to_owned())),
            Some(("late", name)) => Ok(Job::Late(name.to_owned())),
            Some(("once", name)) => Ok(Job::Once(name.to_owned())),
            _ => Err(()),
        }
    }
}

/// The result of a section for its caller, and the token of its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Committed,
    Replay,
    /// Nothing was committed.
    Refused,
    /// Another holder with a larger token came first, so nothing was committed.
    Stale,
    Unknown,
}

/// The lines of a worker begin with this word, which no other code prints.
const MARK: &str = "worker:";

/// A line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Ready,
    Answer(Answer, i64, Job),
}

impl Line {
    /// `None`: other code has printed the line.
    pub(super) fn read(line: &str) -> Option<Self> {
        // The test's harness has begun the first line.
        let (_, rest) = line.split_once(MARK)?;
        let mut words = rest.trim().splitn(3, ' ');
        let answer = match words.next()? {
            "ready" => return Some(Line::Ready),
            "committed" => Answer::Committed,
            "replay" => Answer::Replay,
            "refused" => Answer::Refused,
            "stale" => Answer::Stale,
            "unknown" => Answer::Unknown,
            _ => return None,
        };
        Some(Line::Answer(answer, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }
}

fn say(what: &str) {
    let mut out = std::io::stdout().lock();
    // If the reader has ended, the end of the input shows it, too.
    drop(writeln!(out, "{MARK} {what}").and_then(|()| out.flush()));
}

#[distributed_lock(
    key = "<name>",
    ttl = TTL,
    wait = "1h",
    manager = locks,
    transaction = tx in database,
    fence = fence
)]
async fn add<D: World>(
    locks: &LockManager,
    database: &D,
    name: &str,
    token: &Mutex<i64>,
) -> Result<(), Failure> {
    *token.lock().unwrap() = i64::try_from(fence.token()).unwrap();
    D::step(tx, &fence, Step::Write).await?;
    D::step(tx, &fence, Step::CountUp).await
}

#[distributed_lock(
    key = "<name>",
    ttl = TTL,
    wait = "1h",
    manager = locks,
    transaction = tx in database,
    once = "24h",
    once_outcome = outcome,
    fence = fence
)]
async fn once<D: World + OnceDatabase>(
    locks: &LockManager,
    database: &D,
    name: &str,
    token: &Mutex<i64>,
    outcome: &mut Outcome,
) -> Result<i64, Failure> {
    let number = i64::try_from(fence.token()).unwrap();
    *token.lock().unwrap() = number;
    D::step(tx, &fence, Step::Write).await?;
    Ok(number)
}

/// Other processes acquire the lock before its transaction begins, or while it runs.
async fn late<D: World>(
    locks: &LockManager,
    database: &D,
    name: &str,
    token: &Mutex<i64>,
) -> Result<(), Failure> {
    let guard = locks.lock(name).ttl(TTL).fenced().wait_forever().acquire().await?;
    let fence = guard.fence()?;
    guard.release().await?;
    tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
    transaction(&fence, database, async |tx| {
        *token.lock().unwrap() = i64::try_from(fence.token()).unwrap();
        D::step(tx, &fence, Step::Write).await?;
        D::step(tx, &fence, Step::CountUp).await
    })
    .await
}

async fn section<D: World + OnceDatabase>(locks: &LockManager, database: &D, job: &Job) -> (Answer, i64) {
    let token = Mutex::new(0);
    let mut outcome = Outcome::FirstRun;
    let result = match job {
        Job::Add(name) => add(locks, database, name, &token).await,
        Job::Late(name) => late(locks, database, name, &token).await,
        Job::Once(name) => once(locks, database, name, &token, &mut outcome).await.map(|stored| {
            // The token of the run that has this result.
            *token.lock().unwrap() = stored;
        }),
    };
    let answer = match result {
        Ok(()) if outcome == Outcome::Replay => Answer::Replay,
        Ok(()) => Answer::Committed,
        Err(Failure::Fence(FenceError::OutcomeUnknown { .. })) => Answer::Unknown,
        Err(Failure::Fence(FenceError::Stale { .. })) => Answer::Stale,
        Err(_) => Answer::Refused,
    };
    (answer, token.into_inner().unwrap())
}

async fn work<D: World + OnceDatabase>(locks: LockManager, database: D) {
    let (told, mut jobs) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            drop(told.send(line.parse::<Job>().unwrap()));
        }
    });
    say("ready");
    // Ends when the parent process closes the input or has ended.
    while let Some(job) = jobs.recv().await {
        let (locks, database) = (locks.clone(), database.clone());
        tokio::spawn(async move {
            let (answer, token) = section(&locks, &database, &job).await;
            let answer = format!("{answer:?}").to_lowercase();
            say(&format!("{answer} {token} {job}"));
        });
    }
    locks.shutdown(TTL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test of its parent module"]
async fn works() {
    let (Ok(locks), Ok(url)) = (std::env::var(LOCKS), std::env::var(DATABASE)) else { return };
    let locks = LockManager::builder()
        .url(locks)
        .unavailable_after(Duration::from_secs(3600))
        .connect()
        .await
        .unwrap();
    let patience = distlock_fixtures::BOUND;
    match url.split(':').next() {
        Some("postgres") => {
            let pool = PgPoolOptions::new().acquire_timeout(patience).max_connections(4).connect_lazy(&url);
            work(locks, pool.unwrap()).await;
        }
        Some("mysql") => {
            let pool =
                MySqlPoolOptions::new().acquire_timeout(patience).max_connections(4).connect_lazy(&url);
            work(locks, pool.unwrap()).await;
        }
        _ => {
            let options = url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap().busy_timeout(patience);
            let pool = SqlitePoolOptions::new().acquire_timeout(patience).max_connections(4);
            work(locks, pool.connect_lazy_with(options)).await;
        }
    }
}
