//! Commands that no caller awaits. The reader of the reply to one also handles it, so no other thread is woken.

pub(super) mod stage;

use std::sync::Arc;
use std::task::{Context as TaskContext, Wake, Waker};

use distlock_store::kit::sync::Locked;
use tokio::sync::Notify;

use super::Core;
use super::idle::HandedOver;
use super::in_flight::AwaitedCommand;
use super::release_report::Ending;
use crate::contained::contained;
use crate::protocol::mutated;
use crate::reply_batch::{self, Deferred};
use stage::{Next, Stage};

/// A command in flight that no caller awaits. It does not keep the manager alive: a manager whose last handle is
/// dropped waits for it, and may end before.
pub(super) struct Unawaited {
    core: Arc<Core>,
    stage: Locked<Stage<Work>>,
}

struct Work {
    command: AwaitedCommand,
    /// Of a release whose section has returned.
    ending: Option<Ending>,
    /// Dropped last.
    handed_over: HandedOver,
}

impl AwaitedCommand {
    /// The caller stops awaiting the command. Its reply reaches the engine nevertheless.
    pub(super) fn hand_over(&mut self, core: &Arc<Core>) {
        if core.is_forked() {
            // The parent process awaits it. Data that it shares with connections must not be touched here, and the
            // mutexes may be locked by a thread that does not exist here.
            std::mem::forget(self.in_flight.take());
            return;
        }
        if !self.is_under_way() {
            return;
        }
        if !commands_are_handed_over() {
            drop(contained(|| drop(self.forget(core))));
            return;
        }
        let command = std::mem::replace(self, AwaitedCommand::new(self.kind));
        Unawaited::start(core, command, None);
    }
}

/// A rule that tests can break: the reply to every command reaches the engine, even if its caller was dropped.
fn commands_are_handed_over() -> bool {
    !mutated!(CommandDroppedWithCaller)
}

impl Unawaited {
    /// The caller holds no mutex. The take-over timer knows the command, and ends it together with the I/O thread.
    pub(super) fn start(core: &Arc<Core>, command: AwaitedCommand, ending: Option<Ending>) {
        if core.woken.list.lock().has_ended {
            return;
        }
        let work = Work { command, ending, handed_over: HandedOver::new(core.clone()) };
        Arc::new(Unawaited { core: core.clone(), stage: Locked::new(Stage::Waits(work)) }).poll();
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        loop {
            let begun = self.stage.lock().begin_poll();
            let Some(mut work) = begun else { return };
            if work.command.poll(&self.core, &mut TaskContext::from_waker(&waker)).is_ready() {
                self.stage.lock().ready();
                return work.finish(&self.core);
            }
            let next = self.stage.lock().put_back(work);
            match next {
                Next::Wait => return,
                Next::PollAgain => {}
                Next::Drop(work) => return drop(contained(|| drop(work))),
            }
        }
    }

    /// The I/O thread has ended.
    fn end(&self) {
        let left = self.stage.lock().end();
        drop(contained(|| drop(left)));
    }
}

impl Work {
    fn finish(self, core: &Core) {
        let Work { mut command, ending, handed_over } = self;
        if let Some(ending) = ending {
            ending.finish(core, &command.answer());
        }
        drop(handed_over);
    }
}

impl Wake for Unawaited {
    fn wake(self: Arc<Self>) {
        if let Err(this) = reply_batch::defer(self) {
            let core = this.core.clone();
            core.woken.add(this);
        }
    }
}

impl Deferred for Unawaited {
    fn run(self: Arc<Self>) {
        self.poll();
    }
}

/// Commands that were woken by a thread that does not handle them. The I/O thread does.
#[derive(Default)]
pub(super) struct Woken {
    list: Locked<List>,
    added: Notify,
}

#[derive(Default)]
struct List {
    commands: Vec<Arc<Unawaited>>,
    has_ended: bool,
}

impl Woken {
    fn add(&self, command: Arc<Unawaited>) {
        let mut list = self.list.lock();
        if list.has_ended {
            drop(list);
            return command.end();
        }
        list.commands.push(command);
        drop(list);
        self.added.notify_one();
    }

    /// Handles the commands until the I/O thread ends.
    pub(super) fn look_after(&self) -> impl Future<Output = ()> + Send {
        // Created before the first poll, which never comes if the runtime ends immediately.
        let end = EndOnDrop(self);
        async move {
            // All of `end` moves into the future, not only the reference in it.
            let EndOnDrop(woken) = &end;
            loop {
                woken.added.notified().await;
                let commands = std::mem::take(&mut woken.list.lock().commands);
                for command in commands {
                    drop(contained(|| command.poll()));
                }
            }
        }
    }
}

struct EndOnDrop<'a>(&'a Woken);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let mut list = self.0.list.lock();
        list.has_ended = true;
        let commands = std::mem::take(&mut list.commands);
        drop(list);
        commands.iter().for_each(|command| command.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_ends_together_with_the_thread_that_looks_after_it() {
        let woken = Woken::default();
        let looking_after = woken.look_after();
        assert!(!woken.list.lock().has_ended);
        drop(looking_after);
        assert!(woken.list.lock().has_ended, "it was never polled");
    }
}
