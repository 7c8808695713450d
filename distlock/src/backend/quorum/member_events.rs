//! Passes the events of one server to the coordinator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::super::redis::RedisBackend;
use super::super::{Events, LinkEvent, Push, Who};
use super::Input;
use super::effect::NewLink;
use distlock_store::clock;

/// Receives one server's events.
pub(super) struct MemberEvents {
    pub(super) at: usize,
    pub(super) node: Arc<RedisBackend>,
    pub(super) inbox: mpsc::UnboundedSender<Input>,
    /// The receiver of the quorum's events.
    pub(super) events: Arc<dyn Events>,
    /// How often the server was connected or lost.
    pub(super) changes: Arc<AtomicU64>,
}

impl MemberEvents {
    fn tell(&self, input: Input) {
        // This fails only when the coordinator has ended together with the manager.
        drop(self.inbox.send(input));
    }
}

impl Events for MemberEvents {
    fn link(&self, event: LinkEvent) {
        let at = self.at;
        match event {
            LinkEvent::Up { earlier, pushes } => {
                let (node, inbox, changes) =
                    (Arc::clone(&self.node), self.inbox.clone(), Arc::clone(&self.changes));
                let change = changes.fetch_add(1, Ordering::Relaxed) + 1;
                let (sent, origin) = (clock::now(), node.origin());
                tokio::spawn(async move {
                    match origin.await {
                        // The link may be lost before the task runs, although the server has replied.
                        _ if changes.load(Ordering::Relaxed) != change => {}
                        Ok(origin) => {
                            let link = NewLink { sent, earlier, pushes, origin };
                            drop(inbox.send(Input::Joined { node: at, link }));
                        }
                        // It is asked again when it is connected again.
                        Err(cause) => node.give_up(cause),
                    }
                });
            }
            LinkEvent::Down { cause } => {
                self.changes.fetch_add(1, Ordering::Relaxed);
                self.tell(Input::Left { node: at, cause });
            }
            LinkEvent::Notifications(pushes) => self.tell(Input::Listens { node: at, pushes }),
        }
    }

    fn push(&self, push: Push) {
        self.tell(Input::Pushed { node: self.at, push });
    }

    fn who(&self) -> Option<Who> {
        self.events.who()
    }
}
