//! The executor of the I/O thread's tasks.

use std::time::Duration;

use tokio::runtime::Handle;

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
                handle.spawn(async move { tokio::time::sleep(d).await }).await.is_ok()
            }
            #[cfg(test)]
            Executor::Simulated(_) => {
                self.pause(d).await;
                true
            }
        }
    }
}
