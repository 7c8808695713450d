//! The database libraries, and the steps of the tests' sections.

use std::error::Error;

use distlock_fence::{Done, Fence, FenceError, FencedDatabase, Once, migrate, transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::world::World;

/// The error of a test's section.
#[derive(Debug)]
#[expect(dead_code, reason = "the tests that fail print them")]
pub(crate) enum Failure {
    /// An error of the fence.
    Fence(FenceError),
    /// An error of a statement of the body.
    Statement(Box<dyn Error + Send + Sync>),
    /// An error of the lock.
    Lock(distlock::LockError),
    /// An error of the body itself.
    Refused,
}

impl From<FenceError> for Failure {
    fn from(error: FenceError) -> Self {
        Failure::Fence(error)
    }
}

macro_rules! of_a_statement {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Failure::Statement(error.into())
            }
        }
    )*};
}
of_a_statement!(
    sqlx::Error,
    sea_orm::DbErr,
    mysql_async::Error,
    tokio_postgres::Error,
    diesel::result::Error,
    rusqlite::Error
);

/// The steps of a section's body in addition to its write.
#[derive(Default)]
pub(crate) struct Plan {
    /// Before the write, reports that it has begun, and waits.
    pub(crate) pause: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
    /// The next step.
    pub(crate) before: Option<Step>,
    /// The end of the body, after the write.
    pub(crate) end: End,
}

/// A step of a body.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Writes its token.
    Write,
    /// Increments a counter, by a read and a write.
    CountUp,
    /// Executes a statement that fails. On MySQL and SQLite, the transaction ends.
    Fail,
}

/// How the body of a section ends.
#[derive(Default)]
pub(crate) enum End {
    #[default]
    Commit,
    Refuse,
    Panic,
    /// Reports that it has written, and never returns.
    Hang(oneshot::Sender<()>),
    /// Calls this function.
    Do(Box<dyn FnOnce() + Send>),
    /// Calls this function, and writes again.
    DoAndWrite(Box<dyn FnOnce() + Send>),
    /// Executes a statement that fails, and hides the error.
    HideAFailure,
    /// The same, and writes again.
    HideAFailureAndWrite,
}

impl Plan {
    pub(crate) fn before(step: Step) -> Self {
        Plan { before: Some(step), ..Plan::default() }
    }

    pub(crate) fn ending(end: End) -> Self {
        Plan { end, ..Plan::default() }
    }

    /// The steps that come first.
    pub(crate) async fn begun(&mut self) -> impl Iterator<Item = Step> + use<> {
        if let Some((begun, go)) = self.pause.take() {
            begun.send(()).unwrap();
            go.await.unwrap();
        }
        self.before.take().into_iter().chain([Step::Write])
    }

    /// The steps that come last.
    pub(crate) async fn written(self) -> Result<&'static [Step], Failure> {
        match self.end {
            End::Commit => Ok(&[]),
            End::Refuse => Err(Failure::Refused),
            End::Panic => panic!("the body"),
            End::Hang(written) => {
                written.send(()).unwrap();
                std::future::pending().await
            }
            End::Do(what) => {
                what();
                Ok(&[])
            }
            End::DoAndWrite(what) => {
                what();
                Ok(&[Step::Write])
            }
            End::HideAFailure => Ok(&[Step::Fail]),
            End::HideAFailureAndWrite => Ok(&[Step::Fail, Step::Write]),
        }
    }

    /// A body for a blocking library.
    pub(crate) fn block_on(
        mut self,
        runtime: &Handle,
        mut step: impl FnMut(Step) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        runtime.block_on(self.begun()).try_for_each(&mut step)?;
        runtime.block_on(self.written())?.iter().copied().try_for_each(step)
    }
}

/// A body for an async library. (A macro, because the compiler does not know that the future of a closure with a
/// lifetime is `Send`.)
macro_rules! follow {
    ($plan:ident, $step:ident => $do:expr) => {{
        for $step in $plan.begun().await {
            $do.await?;
        }
        for &$step in $plan.written().await? {
            $do.await?;
        }
        Ok::<_, Failure>(())
    }};
}
pub(crate) use follow;

/// A library with a separate database.
pub(crate) trait Library: Clone + Send + Sync + 'static {
    /// The observer of the database.
    type Observer: World;

    /// Whether its sections block a thread, so they cannot be dropped.
    const BLOCKS: bool = false;

    fn observer(&self) -> &Self::Observer;

    /// Runs one section of one holder: checks the fence, writes according to `plan`, and commits.
    fn section(&self, fence: &Fence, plan: Plan) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Creates the table of fences.
    fn make_table(&self) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// A value that a run may return.
pub(crate) trait Returned: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> Returned for T {}

/// A library that stores results.
pub(crate) trait OnceLibrary: Library {
    /// A run that writes its token, and returns this value.
    fn once<T: Returned>(
        &self,
        fence: &Fence,
        request: &Once,
        result: Result<T, Failure>,
    ) -> impl Future<Output = Result<Done<T>, Failure>> + Send;

    /// Deletes old results, and returns their number.
    fn prune(&self) -> impl Future<Output = u64> + Send;
}

/// The steps of a pool's transaction.
pub(crate) trait Steps: FencedDatabase + Clone + Send + Sync + 'static {
    fn step(
        connection: &mut Self::Connection,
        fence: &Fence,
        step: Step,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The pools of sqlx are their own observers.
impl<D: World> Library for D {
    type Observer = D;

    fn observer(&self) -> &D {
        self
    }

    async fn section(&self, fence: &Fence, mut plan: Plan) -> Result<(), Failure> {
        let body = async |tx: &mut D::Connection| follow!(plan, step => D::step(tx, fence, step));
        transaction(fence, self, body).await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        migrate(self).await
    }
}
