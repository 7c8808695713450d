//! Every exit of every accepted shape of function is under the lock, for any value and any kind of exit.

use std::pin::Pin;

use distlock::{LockError, LockManager, blocking, distributed_lock, is_held_here};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::support::locked;

/// The result of a body that ended early: whether the lock was held there.
#[derive(Debug)]
enum Early {
    Held(bool),
    Lock(LockError),
}

impl From<LockError> for Early {
    fn from(error: LockError) -> Self {
        Early::Lock(error)
    }
}

type Seen = Result<bool, Early>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Tail,
    Return,
    ReturnInALoop,
    QuestionMark,
    LetElse,
    MatchArm,
    LabeledBlock,
    InnerClosure,
}

const EXITS: [Exit; 8] = [
    Exit::Tail,
    Exit::Return,
    Exit::ReturnInALoop,
    Exit::QuestionMark,
    Exit::LetElse,
    Exit::MatchArm,
    Exit::LabeledBlock,
    Exit::InnerClosure,
];

fn here() -> bool {
    is_held_here("k")
}

/// A body with all exits. An async body executes `pause` before each exit.
macro_rules! leaves {
    ($exit:expr, $pause:expr) => {{
        let exit = $exit;
        $pause;
        if exit == Exit::Return {
            return Ok(here());
        }
        while exit == Exit::ReturnInALoop {
            $pause;
            return Ok(here());
        }
        if exit == Exit::QuestionMark {
            Err(Early::Held(here()))?;
        }
        let (Exit::Tail | Exit::MatchArm | Exit::LabeledBlock | Exit::InnerClosure) = exit else {
            return Ok(here());
        };
        let labeled = 'block: {
            if exit == Exit::LabeledBlock {
                break 'block here();
            }
            false
        };
        match exit {
            Exit::LabeledBlock => Ok(labeled),
            Exit::MatchArm => return Ok(here()),
            Exit::InnerClosure => {
                let inner = || {
                    return here();
                };
                Ok(inner())
            }
            _ => Ok(here()),
        }
    }};
}

#[distributed_lock(key = "k")]
async fn plain(exit: Exit) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[distributed_lock(key = "k", guard = _guard)]
async fn with_guard(exit: Exit) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[distributed_lock(key = "k", on_busy = Ok(false))]
async fn with_on_busy(exit: Exit) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[distributed_lock(key = "k", on_lost = "continue", release = "background", when = EXITS.contains(&exit))]
async fn with_options(exit: Exit) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[distributed_lock(key = "k")]
async fn with_a_pattern((exit, _): (Exit, String)) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[distributed_lock(key = "k", when = EXITS.contains(&exit))]
async fn with_a_pattern_in_front((exit, _): (Exit, String)) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[distributed_lock(key = "k")]
fn opaque(exit: Exit) -> impl Future<Output = Seen> {
    async move { leaves!(exit, tokio::task::yield_now().await) }
}

#[distributed_lock(key = "k")]
fn pinned(exit: Exit) -> Pin<Box<dyn Future<Output = Seen> + Send>> {
    Box::pin(async move { leaves!(exit, tokio::task::yield_now().await) })
}

#[distributed_lock(key = "k")]
fn returned(exit: Exit) -> Pin<Box<dyn Future<Output = Seen> + Send>> {
    return Box::pin(async move { leaves!(exit, tokio::task::yield_now().await) });
}

#[distributed_lock(key = "k")]
fn boxed(exit: Exit) -> BoxFuture<'static, Seen> {
    async move { leaves!(exit, tokio::task::yield_now().await) }.boxed()
}

#[distributed_lock(key = "k")]
fn behind_statements(exit: Exit) -> impl Future<Output = Seen> {
    let first = |exits: &[Exit]| {
        if exits.is_empty() {
            return exit;
        }
        exits[0]
    };
    let exit = first(&[exit]);
    async move { leaves!(exit, tokio::task::yield_now().await) }
}

#[distributed_lock(key = "k")]
#[tracing::instrument]
async fn above_instrument(exit: Exit) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[tracing::instrument]
#[distributed_lock(key = "k")]
async fn below_instrument(exit: Exit) -> Seen {
    leaves!(exit, tokio::task::yield_now().await)
}

#[tracing::instrument]
#[distributed_lock(key = "k")]
fn boxed_below_instrument(exit: Exit) -> BoxFuture<'static, Seen> {
    Box::pin(async move { leaves!(exit, tokio::task::yield_now().await) })
}

#[async_trait::async_trait]
trait Service {
    async fn call(&self, exit: Exit) -> Seen;
}

struct Shop;

#[async_trait::async_trait]
impl Service for Shop {
    #[distributed_lock(key = "k")]
    async fn call(&self, exit: Exit) -> Seen {
        leaves!(exit, tokio::task::yield_now().await)
    }
}

#[distributed_lock(key = "k")]
fn on_a_thread(exit: Exit) -> Seen {
    leaves!(exit, std::thread::yield_now())
}

#[distributed_lock(key = "k", on_lost = "continue", on_busy = Ok(false))]
fn with_options_on_a_thread((exit, _): (Exit, String)) -> Seen {
    leaves!(exit, std::thread::yield_now())
}

fn held(shape: &str, exit: Exit, seen: Seen) {
    match seen {
        Ok(held) | Err(Early::Held(held)) => assert!(held, "{shape}, {exit:?}"),
        Err(Early::Lock(error)) => panic!("{shape}, {exit:?}: {error}"),
    }
}

#[tokio::test]
async fn of_every_async_shape() {
    locked(async {
        for exit in EXITS {
            let text = String::new;
            held("plain", exit, plain(exit).await);
            held("with_guard", exit, with_guard(exit).await);
            held("with_on_busy", exit, with_on_busy(exit).await);
            held("with_options", exit, with_options(exit).await);
            held("with_a_pattern", exit, with_a_pattern((exit, text())).await);
            held("with_a_pattern_in_front", exit, with_a_pattern_in_front((exit, text())).await);
            held("opaque", exit, opaque(exit).await);
            held("pinned", exit, pinned(exit).await);
            held("returned", exit, returned(exit).await);
            held("boxed", exit, boxed(exit).await);
            held("behind_statements", exit, behind_statements(exit).await);
            held("above_instrument", exit, above_instrument(exit).await);
            held("below_instrument", exit, below_instrument(exit).await);
            held("boxed_below_instrument", exit, boxed_below_instrument(exit).await);
            held("async_trait", exit, Shop.call(exit).await);
        }
    })
    .await;
}

#[test]
fn of_every_shape_on_a_thread() {
    blocking::with_manager(LockManager::in_memory(), || {
        for exit in EXITS {
            held("on_a_thread", exit, on_a_thread(exit));
            held("with_options", exit, with_options_on_a_thread((exit, String::new())));
        }
    });
}
