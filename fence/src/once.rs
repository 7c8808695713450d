//! Runs that happen once: the result is committed together with what the run has changed.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::{Fence, FenceError, FencedDatabase, FencedTransaction, MAX_RESULT};

/// A database that stores the results of runs. Implemented for the same types as [`FencedDatabase`].
pub trait OnceDatabase: FencedDatabase {
    /// The stored result of the key, read outside a transaction. `None` if there is none, or if it has expired by the
    /// clock of the database.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`]
    fn find(&self, fence: &Fence) -> impl Future<Output = Result<Option<Stored>, FenceError>> + Send;

    /// The same inside a transaction.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`]
    fn find_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> impl Future<Output = Result<Option<Stored>, FenceError>> + Send;

    /// Stores a result for this long. It replaces an older result.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`]; [`FenceError::OutcomeUnknown`] if the transaction has already ended.
    fn store(
        transaction: &mut Self::Transaction,
        fence: &Fence,
        stored: &Stored,
        keep: Duration,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// Deletes expired results, and returns their number.
    ///
    /// # Errors
    /// The error of the database.
    fn prune(&self) -> impl Future<Output = Result<u64, Box<dyn Error + Send + Sync>>> + Send;
}

/// The stored data of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The result, as JSON.
    pub result: String,
    /// The SHA-256 of the arguments, if they were given.
    pub arguments: Option<Vec<u8>>,
}

/// Deletes expired results, and returns their number. Call it in a job that runs now and then. It only affects the size
/// of the table `distlock_once`. The rows of the keys in `distlock_fence` [stay](crate#rows-stay).
///
/// # Errors
/// The error of the database.
pub async fn prune<D: OnceDatabase>(database: &D) -> Result<u64, Box<dyn Error + Send + Sync>> {
    database.prune().await
}

/// How long the result of a run is kept, and the arguments of the run.
#[derive(Clone, Debug)]
pub struct Once {
    keep: Duration,
    arguments: Option<Result<Vec<u8>, Arc<str>>>,
}

/// Whether the body ran, or its stored result was returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    /// The body ran.
    #[default]
    FirstRun,
    /// An earlier run had committed. This is its result.
    Replay,
}

impl Outcome {
    /// Whether the result of an earlier run was returned.
    #[must_use]
    pub fn is_replay(self) -> bool {
        self == Outcome::Replay
    }
}

/// A value, and whether it comes from an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// The value that the body returned, in this run or in an earlier one.
    pub value: T,
    /// Whether the body ran now, or in an earlier run.
    pub outcome: Outcome,
}

/// A run that was begun.
#[derive(Debug)]
pub enum Run<D: FencedDatabase, T> {
    /// It is the first one.
    First(FirstRun<D>),
    /// An earlier run has committed this result.
    Replay(T),
}

/// The transaction of a first run, which commits its effects and its result together.
#[derive(Debug)]
pub struct FirstRun<D: FencedDatabase> {
    transaction: FencedTransaction<D>,
    keep: Duration,
    arguments: Option<Vec<u8>>,
    reads_back: ReadsBack,
}

/// Whether JSON can be read as the type of a replay, which is known when a run begins.
type ReadsBack = fn(&str) -> Result<(), serde_json::Error>;

impl<D: FencedDatabase, T> Run<D, T> {
    /// Whether it is the first run.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Run::First(_) => Outcome::FirstRun,
            Run::Replay(_) => Outcome::Replay,
        }
    }
}

impl Once {
    /// Keeps the result for this long, by the clock of the database. It is counted in milliseconds.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        Once { keep, arguments: None }
    }

    /// A later run of the key with other arguments is refused with [`FenceError::OtherArguments`]. The SHA-256 of their
    /// JSON is stored. A map with a random order has another hash each time. If several functions may get the same key,
    /// let the name of the function be one of the arguments, as the attribute of `distlock` does.
    #[must_use]
    pub fn arguments(self, arguments: &(impl Serialize + ?Sized)) -> Self {
        let digest = serde_json::to_vec(arguments)
            .map(|json| Sha256::digest(json).to_vec())
            .map_err(|error| Arc::from(format!("the arguments cannot be written as JSON: {error}")));
        Once { arguments: Some(digest), ..self }
    }

    /// Looks for the result of an earlier run, and begins a fenced transaction if there is none.
    ///
    /// # Errors
    /// Every [`FenceError`], except the errors of a commit.
    ///
    /// # Cancel safety
    /// Cancel-safe: an open transaction is rolled back.
    pub async fn begin<D, T>(&self, fence: &Fence, database: &D) -> Result<Run<D, T>, FenceError>
    where
        D: OnceDatabase,
        T: DeserializeOwned,
    {
        let arguments = self.digest(fence)?;
        // One query, without a transaction, for requests that are repeated.
        if let Some(stored) = database.find(fence).await? {
            return stored.read(fence, arguments.as_deref()).map(Run::Replay);
        }
        let mut transaction = FencedTransaction::begin(fence, database).await?;
        // An earlier holder may have committed since then: the check of the fence has waited for it.
        let found = match database.find_in(&mut transaction, fence).await {
            Ok(found) => found,
            Err(error) => {
                transaction.roll_back().await;
                return Err(error);
            }
        };
        match found {
            Some(stored) => {
                transaction.roll_back().await;
                stored.read(fence, arguments.as_deref()).map(Run::Replay)
            }
            None => {
                let reads_back = Stored::reads_back::<T>;
                Ok(Run::First(FirstRun { transaction, keep: self.keep, arguments, reads_back }))
            }
        }
    }

    /// The SHA-256 of the arguments, if there are any.
    pub(crate) fn digest(&self, fence: &Fence) -> Result<Option<Vec<u8>>, FenceError> {
        match &self.arguments {
            Some(Ok(digest)) => Ok(Some(digest.clone())),
            Some(Err(reason)) => Err(FenceError::not_committed(fence, &**reason)),
            None => Ok(None),
        }
    }

    /// For how long a result is kept.
    pub(crate) fn keep(&self) -> Duration {
        self.keep
    }
}

impl Stored {
    /// Stores this value, of the type of a replay.
    pub(crate) fn new<T: Serialize + DeserializeOwned>(
        value: &T,
        arguments: Option<Vec<u8>>,
        fence: &Fence,
    ) -> Result<Self, FenceError> {
        Self::written(value, arguments, fence, Self::reads_back::<T>)
    }

    /// Stores this value, unless every replay would fail, because its JSON cannot be read.
    fn written<T: Serialize + ?Sized>(
        value: &T,
        arguments: Option<Vec<u8>>,
        fence: &Fence,
        reads_back: ReadsBack,
    ) -> Result<Self, FenceError> {
        let json = serde_json::to_string(value).map_err(|error| {
            FenceError::not_committed(fence, format!("the result cannot be written as JSON: {error}"))
        })?;
        if json.len() > MAX_RESULT {
            return Err(FenceError::TooLarge { key: fence.key().to_owned(), bytes: json.len() });
        }
        reads_back(&json).map_err(|error| {
            let about = format!(
                "the result cannot be read back from its JSON, so a repeated request could not get it: {error}; return \
                 a value that serde reads as it has written it, for example `None` instead of a float that is NaN or \
                 infinite"
            );
            FenceError::not_committed(fence, about)
        })?;
        Ok(Stored { result: json, arguments })
    }

    fn reads_back<T: DeserializeOwned>(json: &str) -> Result<(), serde_json::Error> {
        serde_json::from_str::<T>(json).map(drop)
    }

    pub(crate) fn read<T: DeserializeOwned>(
        self,
        fence: &Fence,
        arguments: Option<&[u8]>,
    ) -> Result<T, FenceError> {
        // Either run may have no arguments, if the option was added or removed between the runs.
        if let (Some(ours), Some(theirs)) = (arguments, &self.arguments)
            && ours != theirs.as_slice()
        {
            return Err(FenceError::OtherArguments { key: fence.key().to_owned() });
        }
        serde_json::from_str(&self.result)
            .map_err(|error| FenceError::Unreadable { key: fence.key().to_owned(), source: Arc::new(error) })
    }

    /// The result for the caller of a run that was already done.
    pub(crate) fn replay<T: DeserializeOwned>(
        self,
        fence: &Fence,
        arguments: Option<&[u8]>,
    ) -> Result<Done<T>, FenceError> {
        Ok(Done { value: self.read(fence, arguments)?, outcome: Outcome::Replay })
    }
}

impl<D: OnceDatabase> FirstRun<D> {
    /// Stores the result and commits.
    ///
    /// # Errors
    /// [`FenceError::TooLarge`] if the result has more than [`MAX_RESULT`] bytes, [`FenceError::NotCommitted`] (also if
    /// a replay could not read the result from its JSON), and [`FenceError::OutcomeUnknown`] if the reply to the commit
    /// was lost.
    ///
    /// # Cancel safety
    /// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction
    /// may have been committed.
    pub fn commit<T: Serialize + ?Sized>(
        self,
        value: &T,
    ) -> impl Future<Output = Result<(), FenceError>> + Send + use<D, T> {
        // This is done outside the future, so that the future does not borrow the value.
        let fence = self.transaction.fence().clone();
        let FirstRun { mut transaction, keep, arguments, reads_back } = self;
        let stored = Stored::written(value, arguments, &fence, reads_back);
        async move {
            let stored = match stored {
                Ok(stored) => D::store(&mut transaction, &fence, &stored, keep).await,
                Err(error) => Err(error),
            };
            match stored {
                Ok(()) => transaction.commit().await,
                Err(error) => {
                    transaction.roll_back().await;
                    Err(error)
                }
            }
        }
    }

    /// [Commits](FirstRun::commit) if `result` is `Ok`, and rolls back otherwise. Returns it.
    ///
    /// # Errors
    /// The errors of [`commit`](FirstRun::commit).
    ///
    /// # Cancel safety
    /// The same as for [`commit`](FirstRun::commit).
    pub async fn end<T: Serialize, E>(self, result: Result<T, E>) -> Result<Result<T, E>, FenceError> {
        match result {
            Ok(value) => {
                self.commit(&value).await?;
                Ok(Ok(value))
            }
            Err(error) => {
                self.roll_back().await;
                Ok(Err(error))
            }
        }
    }
}

impl<D: FencedDatabase> FirstRun<D> {
    /// The transaction for the body.
    pub fn transaction(&mut self) -> &mut D::Transaction {
        &mut self.transaction
    }

    /// Rolls back. If this fails, the server rolls back when it notices that the connection has ended.
    pub async fn roll_back(self) {
        self.transaction.roll_back().await;
    }
}

/// A [`transaction`](crate::transaction) that runs once: the first `Ok` of `body` is stored in the transaction of its
/// effects. For the time in `once`, every later call with this key returns this result and does not call `body`.
///
/// So a key belongs to one function: with the same key, another function would get the result of this one, unless it
/// has other [arguments](Once::arguments).
///
/// The caller should hold the lock of the key, so that two calls do not wait for each other in the database. An `Err`
/// is not stored. The result is stored as JSON and has at most [`MAX_RESULT`] bytes. If it cannot be read back from its
/// JSON (a float that is NaN or infinite), nothing is committed ([`FenceError::NotCommitted`]).
///
/// ```
/// # #[cfg(feature = "sqlx-postgres")] mod example {
/// use std::time::Duration;
/// use distlock_fence::{Fence, FenceError, Once, once};
/// # #[derive(Debug)] enum RedeemError { Fence(FenceError), Database(sqlx::Error) }
/// # impl From<FenceError> for RedeemError { fn from(error: FenceError) -> Self { RedeemError::Fence(error) } }
/// # impl From<sqlx::Error> for RedeemError { fn from(error: sqlx::Error) -> Self { RedeemError::Database(error) } }
///
/// async fn redeem(pool: &sqlx::PgPool, fence: &Fence, user: i64, price: i64) -> Result<i64, RedeemError> {
///     let request = Once::new(Duration::from_secs(24 * 60 * 60)).arguments(&(user, price));
///     let done = once(fence, pool, &request, async |tx| {
///         let sql = "UPDATE account SET points = points - $1 WHERE id = $2 RETURNING points";
///         Ok::<i64, RedeemError>(sqlx::query_scalar(sql).bind(price).bind(user).fetch_one(tx).await?)
///     });
///     Ok(done.await?.value)
/// }
/// # }
/// ```
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
///
/// # Cancel safety
/// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction may
/// have been committed, and the next call finds out.
pub async fn once<D, T, E, F>(fence: &Fence, database: &D, once: &Once, body: F) -> Result<Done<T>, E>
where
    D: OnceDatabase,
    T: Serialize + DeserializeOwned,
    E: From<FenceError>,
    F: AsyncFnOnce(&mut D::Connection) -> Result<T, E>,
{
    let mut run = match once.begin(fence, database).await? {
        Run::First(run) => run,
        Run::Replay(value) => return Ok(Done { value, outcome: Outcome::Replay }),
    };
    let result = body(run.transaction()).await;
    run.end(result).await?.map(|value| Done { value, outcome: Outcome::FirstRun })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::FirstRun => "first run",
            Outcome::Replay => "replay",
        })
    }
}
