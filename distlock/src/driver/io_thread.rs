//! The thread for everything that must not depend on the caller: connections, pushes, timers, renewal, and commands
//! without a caller.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use once_cell::sync::OnceCell;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot};

use super::Core;
use super::executor::Executor;
use crate::contained::{Panicked, contained, poll_contained};
use crate::observe::observe_this_thread;
use crate::process::Process;
use crate::protocol::{Failure, StoreError};
use distlock_store::clock;

/// How long the replies to commands in flight are awaited after the last handle was dropped.
const LAST_COMMANDS_WAIT: Duration = Duration::from_secs(1);
/// The longest sleep while a timer is set. After each sleep, the suspend-proof clock is read. Otherwise, after a
/// suspend, the thread would first finish the rest of its sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// The pause after a panic of distlock's own code, which may happen again immediately.
const PANIC_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct IoThread {
    running: OnceCell<Running>,
    thread: OnceCell<ThreadId>,
    /// The reason why the thread does not run: it could not be started, or ended too early. It is set once.
    defect: OnceCell<String>,
    made_in: Process,
    rearm: Notify,
    stop: Notify,
}

struct Running {
    executor: Executor,
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
        // Marks its threads for blocking work. `work` marks the I/O thread itself.
        let observers = core.observers.clone();
        builder.on_thread_start(move || observe_this_thread(&observers));
        builder.enable_time();
        if core.backend.uses_sockets() {
            // Only if needed, because it uses four file descriptors.
            builder.enable_io();
        }
        let runtime = builder.build().map_err(|error| format!("the I/O thread's runtime: {error}"))?;
        // Set before the thread starts, because the thread may need it immediately.
        let executor = Executor::Runtime(runtime.handle().clone());
        self.running.get_or_init(|| Running { executor, core: Arc::downgrade(core) });
        let core = core.clone();
        let (sender, receiver) = mpsc::channel();
        let body = move || {
            if let Ok(runtime) = receiver.recv() {
                work(&core, runtime);
            }
        };
        match thread::Builder::new().name("distlock-io".into()).spawn(body) {
            // Sent only now: without a thread, std would drop the runtime here, which panics in async code.
            Ok(_) => drop(sender.send(runtime)),
            Err(error) => {
                runtime.shutdown_background();
                return Err(format!("the I/O thread: {error}"));
            }
        }
        Ok(())
    }

    /// There is no thread: this one is it, which polls the tasks of `executor`, by the executor's clock.
    pub(super) fn run_on(&self, core: &Arc<Core>, executor: Executor) {
        self.thread.get_or_init(|| thread::current().id());
        self.running.get_or_init(|| Running { executor, core: Arc::downgrade(core) });
        let core = core.clone();
        self.spawn(async move {
            if let Err(why) = run(&core).await {
                core.fail(&why);
            }
        });
    }

    pub(super) fn defect(&self) -> Option<String> {
        self.defect.get().cloned()
    }

    /// The thread does not run and never will. The first reason is kept.
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
            running.executor.spawn(work);
        }
    }

    pub(super) async fn sleep(&self, d: Duration) {
        let until = clock::now().after(d);
        if let Some(running) = self.running.get()
            && !self.made_in.is_another()
            && running.executor.sleep(d).await
        {
            return;
        }
        sleep_on_a_thread(until.duration_since(clock::now())).await;
    }

    /// Sleeps, in the thread's own tasks.
    async fn pause(&self, d: Duration) {
        if let Some(running) = self.running.get() {
            running.executor.pause(d).await;
        }
    }

    pub(super) fn rearm(&self) {
        self.rearm.notify_one();
    }

    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }
}

/// Used if the I/O thread does not run, so that a caller that waits in a loop does not spin.
async fn sleep_on_a_thread(d: Duration) {
    // Dropped with this future, so the thread does not outlive it.
    let (kind, lost_interest) = mpsc::channel::<()>();
    let (slept, sleeping) = oneshot::channel::<()>();
    let sleeper = move || {
        // Ends when the time is over, or when the sender is dropped. Nothing is ever received.
        let _: Result<(), mpsc::RecvTimeoutError> = lost_interest.recv_timeout(d);
        drop(slept);
    };
    if thread::Builder::new().name("distlock-sleep".into()).spawn(sleeper).is_ok() {
        // It ends when the sender is dropped. Nothing is ever sent.
        drop(sleeping.await);
    }
    drop(kind);
}

/// The thread's main function. Panics of foreign code are contained where it is called. If a panic reaches this
/// function nevertheless, all users of the thread must learn that it has ended.
fn work(core: &Arc<Core>, runtime: Runtime) {
    core.io.thread.get_or_init(|| thread::current().id());
    observe_this_thread(&core.observers);
    let lived = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(core))));
    let why = match lived {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(payload) => {
            let panicked = Panicked::from_payload(&*payload);
            // Its drop could panic again, and may be the cause of this panic.
            std::mem::forget(payload);
            panicked.to_string()
        }
    };
    // Dropped first, so that none of its tasks runs after the loss was reported.
    drop(contained(|| drop(runtime)));
    core.fail(&why);
}

/// `Err`: the thread ended although the manager is in use.
async fn run(core: &Arc<Core>) -> Result<(), String> {
    let ended = async {
        core.io.stop.notified().await;
        core.idle_within(LAST_COMMANDS_WAIT, Core::is_idle).await;
        core.close_backend(LAST_COMMANDS_WAIT).await;
    };
    tokio::select! {
        biased;
        why = connection(core) => Err(why),
        () = timers(core) => Ok(()),
        () = core.woken.look_after() => Ok(()),
        () = core.take_over_timer.clone().look_after(|d| core.io.pause(d)) => Ok(()),
        () = ended => Ok(()),
    }
}

/// Runs the backend's task, and restarts it after a panic. Returns the reason why it ended.
async fn connection(core: &Arc<Core>) -> String {
    loop {
        let mut work = core.backend.clone().run(core.clone());
        let Err(panicked) = poll_fn(|cx| poll_contained(work.as_mut(), cx)).await else {
            return format!("no task keeps the connection to {}", core.backend.describe());
        };
        // Dropping the rest of it closes its connections.
        drop(contained(|| drop(work)));
        core.backend_panicked(StoreError::new(Failure::Unknown, panicked));
        core.io.pause(PANIC_PAUSE).await;
    }
}

async fn timers(core: &Arc<Core>) {
    loop {
        match core.engine.next_due() {
            None => core.io.rearm.notified().await,
            Some(due) => {
                let wait = due.duration_since(clock::now()).min(LONGEST_SLEEP);
                tokio::select! {
                    biased;
                    () = core.io.rearm.notified() => {}
                    () = core.io.pause(wait) => {}
                }
            }
        }
        if core.fire_timers().is_err() {
            // No timer is lost by the panic: timers that were due are still due, or their keys were forgotten.
            core.io.pause(PANIC_PAUSE).await;
        }
    }
}
