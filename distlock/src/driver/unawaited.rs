//! Releases that no section awaits. The thread that reads the reply of one also handles it, so no other thread is woken.

use std::sync::Arc;
use std::task::{Context as TaskContext, Wake, Waker};

use distlock_store::kit::sync::Locked;
use tokio::sync::Notify;

use super::Core;
use super::in_flight::AwaitedCommand;
use super::releasing::Ending;
use crate::contained::contained;
use crate::reply_batch::{self, Deferred};

/// A release whose section has returned. It does not keep the manager alive: a manager whose last handle is dropped
/// waits for it, and may end before.
pub(super) struct Unawaited {
    core: Arc<Core>,
    stage: Locked<Stage>,
}

enum Stage {
    Waits(AwaitedCommand, Ending),
    /// `again`: it was woken meanwhile.
    Polled {
        again: bool,
    },
    Over,
}

/// What the I/O thread must handle because the thread that has read the reply does not.
#[derive(Default)]
pub(super) struct Woken {
    list: Locked<List>,
    added: Notify,
}

#[derive(Default)]
struct List {
    releases: Vec<Arc<Unawaited>>,
    has_ended: bool,
}

impl Unawaited {
    /// The command must be in flight and watched by the take-over timer, which ends it with the I/O thread.
    pub(super) fn start(core: Arc<Core>, command: AwaitedCommand, ending: Ending) {
        let stage = Locked::new(Stage::Waits(command, ending));
        Arc::new(Unawaited { core, stage }).poll();
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        while let Some((mut command, ending)) = self.take() {
            if command.poll(&self.core, &mut TaskContext::from_waker(&waker)).is_ready() {
                *self.stage.lock() = Stage::Over;
                return ending.finish(&self.core, command);
            }
            let mut stage = self.stage.lock();
            let again = matches!(&*stage, Stage::Polled { again: true });
            *stage = Stage::Waits(command, ending);
            drop(stage);
            if !again {
                return;
            }
        }
    }

    fn take(&self) -> Option<(AwaitedCommand, Ending)> {
        let mut stage = self.stage.lock();
        match std::mem::replace(&mut *stage, Stage::Polled { again: false }) {
            Stage::Waits(command, ending) => Some((command, ending)),
            Stage::Polled { .. } => {
                *stage = Stage::Polled { again: true };
                None
            }
            Stage::Over => {
                *stage = Stage::Over;
                None
            }
        }
    }

    /// The I/O thread has ended before the reply arrived.
    fn end(&self) {
        let last = std::mem::replace(&mut *self.stage.lock(), Stage::Over);
        drop(last);
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

impl Woken {
    fn add(&self, release: Arc<Unawaited>) {
        let mut list = self.list.lock();
        if list.has_ended {
            drop(list);
            return release.end();
        }
        list.releases.push(release);
        drop(list);
        self.added.notify_one();
    }

    /// Runs on the I/O thread.
    pub(super) async fn handle(&self) {
        let _end = EndOnDrop(self);
        loop {
            self.added.notified().await;
            let releases = std::mem::take(&mut self.list.lock().releases);
            for release in releases {
                drop(contained(|| release.poll()));
            }
        }
    }
}

struct EndOnDrop<'a>(&'a Woken);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let mut list = self.0.list.lock();
        list.has_ended = true;
        let releases = std::mem::take(&mut list.releases);
        drop(list);
        releases.iter().for_each(|release| release.end());
    }
}
