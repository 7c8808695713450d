//! Passes the events of one server to the coordinator.

use std::sync::Arc;

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
                let (node, inbox) = (Arc::clone(&self.node), self.inbox.clone());
                let (sent, origin) = (clock::now(), node.origin());
                tokio::spawn(async move {
                    match origin.await {
                        Ok(origin) => {
                            let link = NewLink { sent, earlier, pushes, origin };
                            drop(inbox.send(Input::Joined { node: at, link }));
                        }
                        // It is asked again when it is connected again.
                        Err(cause) => node.give_up(cause),
                    }
                });
            }
            LinkEvent::Down { cause } => self.tell(Input::Left { node: at, cause }),
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
