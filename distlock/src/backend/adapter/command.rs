//! One command on the I/O thread: its turn, its time-out, and its late reply.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::lanes::{CommandId, Lanes};
use crate::backend::{BoxFuture, Failure, LATE_COMMANDS, ServerTime};
use crate::contained::{Panicked, poll_contained};
use distlock_store::StoreError;
use distlock_store::clock;
use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;

/// A reply of the store, and the server's time when it was asked.
pub(super) type TimedReply<T> = Result<(T, ServerTime), StoreError>;

/// Creates a command when its turn comes. `Err`: it had to wait for its turn for too long.
pub(super) type Work = Box<dyn FnOnce(Turn) -> BoxFuture<()> + Send>;

/// A command that waits for its turn, or for the I/O thread.
pub(super) struct QueuedCommand {
    pub(super) keys: Arc<[Arc<str>]>,
    pub(super) work: Work,
}

/// Commands whose turn has come, on their way to the I/O thread.
pub(super) type Started = (CommandId, QueuedCommand);

/// The turn of a command on its keys. Given up when dropped.
pub(super) struct Turn {
    id: CommandId,
    keys: Arc<[Arc<str>]>,
    lanes: Arc<Locked<Lanes<QueuedCommand>>>,
    start: mpsc::UnboundedSender<Started>,
}

impl Turn {
    pub(super) fn new(
        id: CommandId,
        keys: Arc<[Arc<str>]>,
        lanes: &Arc<Locked<Lanes<QueuedCommand>>>,
        start: &mpsc::UnboundedSender<Started>,
    ) -> Self {
        Turn { id, keys, lanes: lanes.clone(), start: start.clone() }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.lanes.lock().ended(self.id, &self.keys);
        for started in next {
            // Fails at the end of the manager; then no task awaits the answer.
            drop(self.start.send(started));
        }
    }
}

/// Ends the lanes when it is dropped with the task of [`dispatch`], also if that was never polled: from then on, no
/// command gets its turn. Those that wait own the backend, which owns the lanes, so they would keep each other alive.
pub(super) struct EndOfLanes(pub(super) Arc<Locked<Lanes<QueuedCommand>>>);

impl Drop for EndOfLanes {
    fn drop(&mut self) {
        // Dropped without the mutex: their callers are woken, and this may be the end of the backend.
        let left = self.0.lock().end();
        drop(left);
    }
}

/// Spawns a task for every command whose turn has come, until the runtime ends.
pub(super) async fn dispatch(
    mut started: mpsc::UnboundedReceiver<Started>,
    lanes: EndOfLanes,
    start: mpsc::UnboundedSender<Started>,
) {
    while let Some((id, QueuedCommand { keys, work })) = started.recv().await {
        let turn = Turn::new(id, keys, &lanes.0, &start);
        tokio::spawn(work(turn));
    }
}

/// When a command was given its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submitted(Time);

impl Submitted {
    pub(super) fn now() -> Self {
        Submitted(clock::now())
    }

    /// The request that it was sent for has given it up.
    pub(super) fn is_outdated(self) -> bool {
        clock::now().duration_since(self.0) > LATE_COMMANDS
    }

    /// How long its answer may take from now on.
    pub(super) fn left(self) -> Duration {
        LATE_COMMANDS.saturating_sub(clock::now().duration_since(self.0))
    }
}

/// The store's reply. A panic of its future counts as a missing reply.
pub(super) fn failed<T>(said: Result<Result<T, StoreError>, Panicked>) -> Result<T, StoreError> {
    match said {
        Ok(said) => said,
        Err(panicked) => Err(StoreError::new(Failure::Unknown, panicked)),
    }
}

/// Awaits the store for `limit`. `answer` is always called in time. `late` is called with a reply that comes after
/// that.
pub(super) async fn in_time<T>(
    mut call: BoxFuture<Result<T, StoreError>>,
    limit: Duration,
    turn: Turn,
    answer: impl FnOnce(Result<T, StoreError>),
    late: impl FnOnce(T),
) {
    let mut said = poll_fn(|cx| poll_contained(call.as_mut(), cx).map(failed));
    if let Ok(said) = timeout(limit, &mut said).await {
        answer(said);
        return;
    }
    let silence = format!("the store did not answer within {LATE_COMMANDS:?}");
    answer(Err(StoreError::new(Failure::Unknown, silence)));
    let said = match timeout(LATE_COMMANDS, &mut said).await {
        Ok(said) => {
            if let Ok(said) = said {
                // Before the turn of the other commands, so that the release of this acquisition is the next command.
                late(said);
            }
            return;
        }
        Err(_) => {
            drop(turn);
            said.await
        }
    };
    if let Ok(said) = said {
        late(said);
    }
}
