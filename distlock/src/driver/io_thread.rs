//! The thread that does everything which must not depend on the caller: connections, pushes, timers,
//! renewal, and commands whose callers are gone.

use std::future::pending;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::Core;
use crate::clock;

/// Commands under way when the last handle goes get so long to be answered.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Timers look at the suspend-proof clock at least this often while anything is due at all: a machine that
/// wakes up must not wait for the rest of a sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct IoThread {
    running: OnceCell<Running>,
    defect: OnceCell<String>,
    rearm: Notify,
    stop: Notify,
}

struct Running {
    handle: Handle,
    core: Weak<Core>,
}

impl IoThread {
    /// Called once.
    pub(super) fn start(&self, core: &Arc<Core>) {
        if let Err(defect) = self.try_start(core) {
            self.defect.get_or_init(|| defect);
        }
    }

    fn try_start(&self, core: &Arc<Core>) -> Result<(), String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("the I/O thread's runtime: {error}"))?;
        // Before the thread: what happens on it at once must find this.
        let (handle, weak) = (runtime.handle().clone(), Arc::downgrade(core));
        self.running.get_or_init(|| Running { handle, core: weak });
        let core = core.clone();
        thread::Builder::new()
            .name("distlock-io".into())
            .spawn(move || runtime.block_on(live(&core)))
            .map(drop)
            .map_err(|error| format!("the I/O thread: {error}"))
    }

    pub(super) fn defect(&self) -> Option<String> {
        self.defect.get().cloned()
    }

    pub(super) fn core(&self) -> Option<Arc<Core>> {
        self.running.get()?.core.upgrade()
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(running) = self.running.get() {
            running.handle.spawn(work);
        }
    }

    pub(super) async fn sleep(&self, d: Duration) {
        match self.running.get() {
            // Made inside the task: a timer belongs to the runtime it was made in, and the caller's may end or
            // not exist. That ours has ended is no reason to wait for ever.
            Some(running) => drop(running.handle.spawn(async move { tokio::time::sleep(d).await }).await),
            None => pending().await,
        }
    }

    pub(super) fn rearm(&self) {
        self.rearm.notify_one();
    }

    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }
}

async fn live(core: &Arc<Core>) {
    let connection = core.backend.clone().run(core.clone());
    let ended = async {
        core.io.stop.notified().await;
        core.quiet_within(LAST_WORDS, Core::is_quiet).await;
    };
    tokio::select! {
        () = connection => {}
        () = timers(core) => {}
        () = ended => {}
    }
}

async fn timers(core: &Arc<Core>) {
    loop {
        match core.engine.next_due() {
            None => core.io.rearm.notified().await,
            Some(due) => {
                let wait = due.since(clock::now()).min(LONGEST_SLEEP);
                tokio::select! {
                    () = core.io.rearm.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
        core.fire_timers();
    }
}
