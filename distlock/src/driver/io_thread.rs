//! The thread that does everything which must not depend on the caller: connections, pushes, timers,
//! renewal, and commands whose callers are gone.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, oneshot};

use super::Core;
use crate::clock;
use crate::contained::{Panicked, contained, poll_contained};
use crate::process::Process;
use crate::protocol::{Failure, OpError};

/// Commands under way when the last handle goes get so long to be answered.
const LAST_COMMANDS_WAIT: Duration = Duration::from_secs(1);
/// Timers look at the suspend-proof clock at least this often while anything is due at all: a machine that
/// wakes up must not wait for the rest of a sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// After a panic of our own, which may come again at once.
const PANIC_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct IoThread {
    running: OnceCell<Running>,
    thread: OnceCell<ThreadId>,
    /// Why it does not run: it could not be started, or has ended too early. Never taken back.
    defect: OnceCell<String>,
    made_in: Process,
    rearm: Notify,
    stop: Notify,
}

struct Running {
    handle: Handle,
    core: Weak<Core>,
}

impl IoThread {
    pub(super) fn new() -> Self {
        IoThread {
            running: OnceCell::new(),
            thread: OnceCell::new(),
            defect: OnceCell::new(),
            made_in: Process::current(),
            rearm: Notify::new(),
            stop: Notify::new(),
        }
    }

    /// Called once.
    pub(super) fn start(&self, core: &Arc<Core>) {
        if let Err(defect) = self.try_start(core) {
            self.ended(defect);
        }
    }

    fn try_start(&self, core: &Arc<Core>) -> Result<(), String> {
        let mut builder = Builder::new_current_thread();
        builder.enable_time();
        if core.backend.uses_sockets() {
            // Only then: it takes four descriptors.
            builder.enable_io();
        }
        let runtime = builder.build().map_err(|error| format!("the I/O thread's runtime: {error}"))?;
        // Before the thread: what happens on it at once must find this.
        let (handle, weak) = (runtime.handle().clone(), Arc::downgrade(core));
        self.running.get_or_init(|| Running { handle, core: weak });
        let core = core.clone();
        thread::Builder::new()
            .name("distlock-io".into())
            .spawn(move || work(&core, runtime))
            .map(drop)
            .map_err(|error| format!("the I/O thread: {error}"))
    }

    pub(super) fn defect(&self) -> Option<String> {
        self.defect.get().cloned()
    }

    /// The thread does not run, and never will. The first reason is kept.
    pub(super) fn ended(&self, why: String) {
        self.defect.get_or_init(|| why);
    }

    pub(super) fn core(&self) -> Option<Arc<Core>> {
        self.running.get()?.core.upgrade()
    }

    pub(super) fn is_this_thread(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(running) = self.running.get() {
            running.handle.spawn(work);
        }
    }

    pub(super) async fn sleep(&self, d: Duration) {
        let until = clock::now().after(d);
        if let Some(running) = self.running.get()
            && !self.made_in.is_another()
        {
            // Made inside the task: a timer belongs to the runtime it was made in, and the caller's may end or
            // not exist.
            let slept = running.handle.spawn(async move { tokio::time::sleep(d).await }).await;
            if slept.is_ok() {
                return;
            }
        }
        sleep_on_a_thread(until.duration_since(clock::now())).await;
    }

    pub(super) fn rearm(&self) {
        self.rearm.notify_one();
    }

    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }
}

/// Where the I/O thread does not run. Whoever waits in a loop must not spin.
async fn sleep_on_a_thread(d: Duration) {
    // Dropped with this future: the thread does not outlive the interest in it.
    let (kind, lost_interest) = mpsc::channel::<()>();
    let (slept, sleeping) = oneshot::channel::<()>();
    let sleeper = move || {
        // Ends when the time is over, or with the interest: either way there is nothing to be received.
        let _: Result<(), mpsc::RecvTimeoutError> = lost_interest.recv_timeout(d);
        drop(slept);
    };
    if thread::Builder::new().name("distlock-sleep".into()).spawn(sleeper).is_ok() {
        // Nothing is sent: it ends with the sender.
        drop(sleeping.await);
    }
    drop(kind);
}

/// The thread. Panics of foreign code are contained where it is called; if one gets here all the same, nobody
/// may go on believing that this thread runs.
fn work(core: &Arc<Core>, runtime: Runtime) {
    core.io.thread.get_or_init(|| thread::current().id());
    let lived = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(core))));
    let why = match lived {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(payload) => {
            let panicked = Panicked::from_payload(&*payload);
            // To drop it could panic again, which may be what has just happened.
            std::mem::forget(payload);
            panicked.to_string()
        }
    };
    // First, so that nothing of it runs on while everybody is told that it does not.
    drop(contained(|| drop(runtime)));
    core.fail(&why);
}

/// `Err`: it has come to an end that was not wanted.
async fn run(core: &Arc<Core>) -> Result<(), String> {
    let ended = async {
        core.io.stop.notified().await;
        core.idle_within(LAST_COMMANDS_WAIT, Core::is_idle).await;
    };
    tokio::select! {
        why = connection(core) => Err(why),
        () = timers(core) => Ok(()),
        () = ended => Ok(()),
    }
}

/// The backend's own work, begun anew after a panic. Returns why it does not go on.
async fn connection(core: &Arc<Core>) -> String {
    loop {
        let mut work = core.backend.clone().run(core.clone());
        let Err(panicked) = poll_fn(|cx| poll_contained(work.as_mut(), cx)).await else {
            return format!("nobody keeps the connection to {} any more", core.backend.describe());
        };
        // What is left of it ends its connections.
        drop(contained(|| drop(work)));
        core.backend_panicked(OpError::new(Failure::Unknown, panicked));
        tokio::time::sleep(PANIC_PAUSE).await;
    }
}

async fn timers(core: &Arc<Core>) {
    loop {
        match core.engine.next_due() {
            None => core.io.rearm.notified().await,
            Some(due) => {
                let wait = due.duration_since(clock::now()).min(LONGEST_SLEEP);
                tokio::select! {
                    () = core.io.rearm.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
        if core.fire_timers().is_err() {
            // What was due is still due, or is forgotten.
            tokio::time::sleep(PANIC_PAUSE).await;
        }
    }
}
