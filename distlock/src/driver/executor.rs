//! The executor of the I/O thread's tasks.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::process::Process;
#[cfg(test)]
use crate::simulation::tasks::Tasks;
#[cfg(test)]
use distlock_store::clock;

#[derive(Clone)]
pub(crate) enum Executor {
    Runtime(Handle),
    /// A simulated world polls them, one at a time.
    #[cfg(test)]
    Simulated(std::sync::Arc<Tasks>),
}

impl Executor {
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Executor::Runtime(handle) => drop(handle.spawn(work)),
            #[cfg(test)]
            Executor::Simulated(tasks) => {
                tasks.spawn(Box::pin(work));
            }
        }
    }

    /// Sleeps. Only for tasks of the I/O thread.
    pub(super) async fn pause(&self, d: Duration) {
        match self {
            Executor::Runtime(_) => tokio::time::sleep(d).await,
            #[cfg(test)]
            Executor::Simulated(tasks) => tasks.sleep(clock::now().after(d)).await,
        }
    }

    /// Sleeps, in any task. `false`: the I/O thread has ended.
    pub(super) async fn sleep(&self, d: Duration) -> bool {
        match self {
            // Created inside the task. A timer belongs to the runtime that created it, and the caller's runtime may end
            // or not exist.
            Executor::Runtime(handle) => {
                let task = handle.spawn(async move { tokio::time::sleep(d).await });
                let mut sleeping = EndedOnDrop { task, made_in: Process::current() };
                (&mut sleeping.task).await.is_ok()
            }
            #[cfg(test)]
            Executor::Simulated(_) => {
                self.pause(d).await;
                true
            }
        }
    }
}

/// A task that only its caller needs. Without this, it would outlive a caller that is dropped.
struct EndedOnDrop {
    task: JoinHandle<()>,
    made_in: Process,
}

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        // The mutexes of the runtime may be locked by a thread that does not exist in a forked process.
        if !self.made_in.is_another() {
            self.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn a_sleep_that_is_dropped_leaves_no_task_behind() {
        let runtime = Handle::current();
        let executor = Executor::Runtime(runtime.clone());
        {
            let sleep = pin!(executor.sleep(Duration::from_secs(600)));
            assert!(sleep.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(runtime.metrics().num_alive_tasks(), 1);
        }
        tokio::task::yield_now().await;
        assert_eq!(runtime.metrics().num_alive_tasks(), 0);
    }
}
