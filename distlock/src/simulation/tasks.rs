//! Tasks that run on one thread, in the order of the world, and the alarms that they wait for.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use crate::protocol::Time;
use distlock_store::kit::sync::Locked;

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Names a task of one process.
pub(crate) type TaskId = u64;

/// The tasks of one process.
#[derive(Default)]
pub(crate) struct Tasks(Locked<Inner>);

#[derive(Default)]
struct Inner {
    next: TaskId,
    tasks: BTreeMap<TaskId, Task>,
    /// The tasks to poll, in the order in which they were woken.
    woken: Vec<TaskId>,
    /// The alarms that are not planned yet.
    alarms: Vec<(Time, Arc<Alarm>)>,
}

/// The alarm that wakes a sleeping task.
#[derive(Debug)]
pub(crate) struct Alarm {
    fired: AtomicBool,
    sleeper: Waker,
}

impl Alarm {
    pub(crate) fn fire(&self) {
        self.fired.store(true, Ordering::Relaxed);
        self.sleeper.wake_by_ref();
    }
}

impl Tasks {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Adds a task, which will be polled.
    pub(crate) fn spawn(&self, task: Task) -> TaskId {
        let mut inner = self.inner();
        let id = inner.next;
        inner.next += 1;
        inner.tasks.insert(id, task);
        inner.woken.push(id);
        id
    }

    /// The next task to poll, in the order in which they were woken.
    pub(crate) fn next_woken(&self) -> Option<TaskId> {
        let mut inner = self.inner();
        (!inner.woken.is_empty()).then(|| inner.woken.remove(0))
    }

    pub(crate) fn is_woken(&self, id: TaskId) -> bool {
        self.inner().woken.contains(&id)
    }

    pub(crate) fn take_alarms(&self) -> Vec<(Time, Arc<Alarm>)> {
        std::mem::take(&mut self.inner().alarms)
    }

    /// Polls a task, if it is there still.
    pub(crate) fn poll(self: &Arc<Self>, id: TaskId) {
        let Some(mut task) = self.inner().tasks.remove(&id) else { return };
        let waker = Waker::from(Arc::new(TaskWaker { id, tasks: self.clone() }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.inner().tasks.insert(id, task);
        }
    }

    /// Drops a task at any point at which it waits.
    pub(crate) fn abort(&self, id: TaskId) {
        let task = self.inner().tasks.remove(&id);
        drop(task);
    }

    /// Drops all of them.
    pub(crate) fn abort_all(&self) {
        loop {
            let tasks = std::mem::take(&mut self.inner().tasks);
            if tasks.is_empty() {
                return;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.inner().tasks.len()
    }

    /// Becomes ready when its alarm is fired.
    pub(crate) fn sleep(self: &Arc<Self>, until: Time) -> Sleep {
        Sleep { tasks: self.clone(), until, alarm: None }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.len()).finish()
    }
}

struct TaskWaker {
    id: TaskId,
    tasks: Arc<Tasks>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut inner = self.tasks.inner();
        if !inner.woken.contains(&self.id) {
            inner.woken.push(self.id);
        }
    }
}

/// A task that sleeps.
pub(crate) struct Sleep {
    tasks: Arc<Tasks>,
    until: Time,
    alarm: Option<Arc<Alarm>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.alarm {
            Some(alarm) if alarm.fired.load(Ordering::Relaxed) => return Poll::Ready(()),
            Some(_) => {}
            None => {
                let alarm = Alarm { fired: AtomicBool::new(false), sleeper: cx.waker().clone() };
                let alarm = Arc::new(alarm);
                self.tasks.inner().alarms.push((self.until, alarm.clone()));
                self.alarm = Some(alarm);
            }
        }
        Poll::Pending
    }
}
