//! The libraries that reach a database, and what the sections of the tests do with them.

use std::error::Error;

use distlock_fence::{Done, Fence, FenceError, FencedDatabase, Once, migrate, transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::world::World;

/// What the sections of the tests fail with.
#[derive(Debug)]
#[expect(dead_code, reason = "the tests that fail print them")]
pub(crate) enum Failure {
    /// Of the fence.
    Fence(FenceError),
    /// Of a statement of the body.
    Statement(Box<dyn Error + Send + Sync>),
    /// Of the lock.
    Lock(distlock::LockError),
    /// Of the body itself.
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

/// What the body of a section does beside its write.
#[derive(Default)]
pub(crate) struct Plan {
    /// Before it: says that it has begun, and waits.
    pub(crate) pause: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
    /// What it does then.
    pub(crate) before: Option<Step>,
    /// After the write.
    pub(crate) end: End,
}

/// A step of a body.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Writes its token.
    Write,
    /// Reads a number, and writes it one larger.
    CountUp,
    /// Nothing: its statement fails.
    Fail,
}

/// How the body of a section ends.
#[derive(Default)]
pub(crate) enum End {
    #[default]
    Commit,
    Refuse,
    Panic,
    /// Says that it has written, and never returns.
    Hang(oneshot::Sender<()>),
    /// Does this.
    Do(Box<dyn FnOnce() + Send>),
    /// Does this, and writes once more.
    DoAndWrite(Box<dyn FnOnce() + Send>),
    /// Has a statement fail, and says nothing of it.
    HideAFailure,
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

    /// The step that comes last.
    pub(crate) async fn written(self) -> Result<Option<Step>, Failure> {
        match self.end {
            End::Commit => Ok(None),
            End::Refuse => Err(Failure::Refused),
            End::Panic => panic!("the body"),
            End::Hang(written) => {
                written.send(()).unwrap();
                std::future::pending().await
            }
            End::Do(what) => {
                what();
                Ok(None)
            }
            End::DoAndWrite(what) => {
                what();
                Ok(Some(Step::Write))
            }
            End::HideAFailure => Ok(Some(Step::Fail)),
        }
    }

    /// A body of a library that blocks.
    pub(crate) fn block_on(
        mut self,
        runtime: &Handle,
        mut step: impl FnMut(Step) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        runtime.block_on(self.begun()).try_for_each(&mut step)?;
        runtime.block_on(self.written())?.map_or(Ok(()), step)
    }
}

/// A body of a library that does not. (A macro: the future of a closure with a lifetime is not known to be `Send`.)
macro_rules! follow {
    ($plan:ident, $step:ident => $do:expr) => {{
        for $step in $plan.begun().await {
            $do.await?;
        }
        if let Some($step) = $plan.written().await? {
            $do.await?;
        }
        Ok::<_, Failure>(())
    }};
}
pub(crate) use follow;

/// A library on a database of its own.
pub(crate) trait Library: Clone + Send + Sync + 'static {
    /// What looks at the database from outside.
    type Observer: World;

    /// Its sections block a thread: they cannot be dropped.
    const BLOCKS: bool = false;

    fn observer(&self) -> &Self::Observer;

    /// One section of one holder: checks, writes what `plan` says, commits.
    fn section(&self, fence: &Fence, plan: Plan) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Makes the table of fences.
    fn make_table(&self) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// What a run may return.
pub(crate) trait Returned: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> Returned for T {}

/// A library that keeps results.
pub(crate) trait OnceLibrary: Library {
    /// A run that writes its token, and returns this.
    fn once<T: Returned>(
        &self,
        fence: &Fence,
        request: &Once,
        result: Result<T, Failure>,
    ) -> impl Future<Output = Result<Done<T>, Failure>> + Send;

    /// How many results were deleted.
    fn prune(&self) -> impl Future<Output = u64> + Send;
}

/// What a transaction of a pool does.
pub(crate) trait Steps: FencedDatabase + Clone + Send + Sync + 'static {
    fn step(
        connection: &mut Self::Connection,
        fence: &Fence,
        step: Step,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The pools of sqlx look at their databases themselves.
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
