//! One node of a cluster and the link to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::backend::redis::command::Wire;
use crate::backend::redis::config::Address;
use crate::backend::redis::errors;
use crate::backend::redis::exec::Exec;
use crate::backend::redis::link::Link;
use crate::backend::redis::slot_channels::SlotChannels;
use crate::backend::{Failure, StoreError};
use crate::contained::with_contained_waker;

/// A node that receives commands.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) exec: Arc<Exec>,
    pub(super) slot_channels: SlotChannels,
    state: watch::Sender<NodeState>,
    /// Whether a supervisor keeps its link.
    kept: AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct NodeState {
    link: Option<Arc<Link>>,
    /// How often the link was lost, or an attempt to connect failed.
    failures: u64,
    cause: Option<StoreError>,
    /// The supervisor has ended, so no more attempts are made.
    ended: bool,
}

impl Node {
    pub(super) fn new(address: Address, wire: Arc<Wire>) -> Node {
        Node {
            address,
            exec: Arc::new(Exec::new(wire)),
            slot_channels: SlotChannels::default(),
            state: watch::Sender::default(),
            kept: AtomicBool::new(false),
        }
    }

    pub(super) fn link(&self) -> Option<Arc<Link>> {
        self.state.borrow().link.clone()
    }

    /// `true` for the first caller, which must then keep the link.
    pub(super) fn keep(&self) -> bool {
        !self.kept.swap(true, Ordering::SeqCst)
    }

    pub(super) fn up(&self, link: Arc<Link>) {
        self.state.send_modify(|state| state.link = Some(link));
    }

    pub(super) fn down(&self, cause: StoreError) {
        self.state.send_modify(|state| {
            state.link = None;
            state.failures += 1;
            state.cause = Some(cause);
        });
    }

    pub(super) fn end(&self) {
        self.state.send_modify(|state| {
            state.link = None;
            state.ended = true;
        });
    }

    /// Returns when there is a link.
    pub(super) async fn linked(&self) {
        drop(self.state.subscribe().wait_for(|state| state.link.is_some()).await);
    }

    /// Returns when the link is no longer needed.
    pub(super) async fn ended(&self) {
        // This fails only without a sender, and the sender is part of this node.
        drop(self.state.subscribe().wait_for(|state| state.ended).await);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.borrow().ended
    }

    /// The reason why the last attempt to connect failed, if it did.
    pub(super) fn cause(&self) -> Option<StoreError> {
        self.state.borrow().cause.clone()
    }

    /// Whether it is known if the node is reachable.
    pub(super) fn is_decided(&self) -> bool {
        let state = self.state.borrow();
        state.link.is_some() || state.failures > 0
    }

    pub(super) fn not_connected(&self) -> StoreError {
        errors::found(Failure::NotSent, format!("not connected to {}, which serves this key", self.address))
    }

    /// Waits for the end of the present attempt to connect, and returns the link. No timer is needed, because attempts
    /// have a time-out.
    pub(super) async fn link_soon(&self) -> Result<Arc<Link>, StoreError> {
        let mut state = self.state.subscribe();
        let before = state.borrow().failures;
        let is_over = |state: &NodeState| state.link.is_some() || state.ended || state.failures > before;
        let found = with_contained_waker(state.wait_for(is_over)).await;
        let link = found.ok().and_then(|state| state.link.clone());
        link.ok_or_else(|| self.not_connected())
    }
}
