//! Reads replies inside the I/O driver of the callers' runtime: the socket's waker reads.
//!
//! Wakers that fire inside the I/O driver of a multi-threaded runtime wake at most one parked worker for each poll of
//! the driver. Wakers that fire from a task wake one parked worker each, which costs two switches if both share a core.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::unconstrained;

use super::reader_policy::{Generation, Reader};
use super::{Batch, Connection, Stop};
use crate::contained::{Panicked, contained};
use crate::reply_batch;
use distlock_store::kit::sync::Locked;

/// After this many reads, the reader's task continues, because the I/O driver also serves other sockets and the
/// runtime's timers.
const MAX_READS: usize = 4;

/// A waker that reads and writes.
pub(super) struct OnReady {
    connection: Arc<Connection>,
    generation: Generation,
    state: Locked<OnReadyState>,
}

/// No foreign code runs while its mutex is held, and the mutexes of the connection are not locked under it.
#[derive(Default)]
struct OnReadyState {
    activity: Activity,
    /// The reader's task.
    task: Option<Waker>,
    /// The reader's task does its work, because no code of the program may run inside the I/O driver.
    batch: Batch,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Activity {
    #[default]
    Waits,
    Reads,
    /// It was woken while it was reading, perhaps because of its own read.
    ReadsOnceMore,
    Over,
}

impl OnReady {
    pub(super) fn new(connection: &Arc<Connection>, generation: Generation) -> Arc<OnReady> {
        Arc::new(OnReady { connection: Arc::clone(connection), generation, state: Locked::default() })
    }

    /// Polled by the reader's task. Ready: another task reads from now on, or the connection has ended. The driver on
    /// the I/O thread notices the end.
    pub(super) fn poll(self: &Arc<Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_of_another_process() {
            return Poll::Pending;
        }
        let waker = cx.waker().clone();
        let (former, mut deferrals) = {
            let mut state = self.state.lock();
            (state.task.replace(waker), mem::take(&mut state.batch.deferrals))
        };
        drop(former);
        reply_batch::run(&mut deferrals);
        self.read();
        if self.state.lock().activity == Activity::Over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// In a forked process, the replies belong to the parent process, and the mutexes may be locked by a thread that
    /// does not exist here.
    fn is_of_another_process(&self) -> bool {
        self.connection.made_in.is_another()
    }

    fn read(self: &Arc<Self>) {
        let Some(mut batch) = self.begin() else { return };
        for _ in 0..MAX_READS {
            match self.read_once(&mut batch) {
                Ok(Poll::Ready(None)) => {}
                Ok(Poll::Pending) if self.goes_on(&mut batch) => {}
                Ok(Poll::Pending) => return,
                // A panic is a bug of distlock. The I/O thread reads from then on.
                Ok(Poll::Ready(Some(_))) | Err(_) => return self.stop(Activity::Over, batch),
            }
        }
        self.stop(Activity::Waits, batch);
    }

    /// `None`: this thread must not read.
    fn begin(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        match state.activity {
            Activity::Waits => {
                state.activity = Activity::Reads;
                Some(mem::take(&mut state.batch))
            }
            Activity::Reads => {
                state.activity = Activity::ReadsOnceMore;
                None
            }
            Activity::ReadsOnceMore | Activity::Over => None,
        }
    }

    fn read_once(self: &Arc<Self>, batch: &mut Batch) -> Result<Poll<Option<Stop>>, Panicked> {
        let this = Waker::from(Arc::clone(self));
        let reader = Reader::Caller(self.generation);
        let read = poll_fn(|cx| self.connection.poll_drive_once(reader, batch, cx));
        // Cooperative scheduling must not delay it: a task without budget may be running on this thread.
        let mut read = pin!(unconstrained(read));
        contained(|| read.as_mut().poll(&mut Context::from_waker(&this)))
    }

    /// The socket has no more data. `true`: new data has arrived since then.
    fn goes_on(&self, batch: &mut Batch) -> bool {
        let task = {
            let mut state = self.state.lock();
            if state.activity == Activity::ReadsOnceMore {
                state.activity = Activity::Reads;
                return true;
            }
            state.activity = Activity::Waits;
            state.batch = mem::take(batch);
            if state.batch.deferrals.is_empty() { None } else { state.task.take() }
        };
        drop(contained(|| task.map(Waker::wake)));
        false
    }

    /// Leaves the rest to the reader's task.
    fn stop(&self, next: Activity, batch: Batch) {
        let task = {
            let mut state = self.state.lock();
            state.activity = next;
            state.batch = batch;
            state.task.take()
        };
        drop(contained(|| task.map(Waker::wake)));
    }
}

impl Wake for OnReady {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_of_another_process() {
            self.read();
        }
    }
}
