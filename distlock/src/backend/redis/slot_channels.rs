//! The channels in slots of a cluster node to which this process subscribes (SSUBSCRIBE).
//!
//! A channel for each slot in which this process waits. Scripts push to it by SPUBLISH, which sends nothing to other
//! nodes. A push without a subscriber is sent to all nodes (see scripts/push.lua). So a subscription that is missing,
//! late or lost costs messages between the nodes, but loses no push.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use distlock_store::kit::sync::Locked;

/// The most channels on one node. Each takes 440 bytes there, for every client.
const MOST_CHANNELS: usize = 256;
/// If there are this many, channels of slots in which this process has not waited for this long are dropped.
const UNUSED_AFTER: Duration = Duration::from_secs(60);

/// The channels on one node.
#[derive(Debug, Default)]
pub(super) struct SlotChannels {
    state: Locked<SlotChannelsState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct SlotChannelsState {
    /// When this process last waited in each slot.
    wanted: HashMap<u16, Instant>,
    /// Slots for which the present connection has sent SSUBSCRIBE.
    subscribed: HashSet<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Subscribe,
    Unsubscribe,
}

impl SlotChannels {
    /// This process begins to wait for a lock in `slot`.
    pub(super) fn want(&self, slot: u16) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Some(at) = state.wanted.get_mut(&slot) {
            *at = now;
            return;
        }
        if state.wanted.len() >= MOST_CHANNELS {
            state.wanted.retain(|_, at| now.duration_since(*at) < UNUSED_AFTER);
        }
        if state.wanted.len() < MOST_CHANNELS {
            state.wanted.insert(slot, now);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// The node no longer pushes for `slot` here.
    pub(super) fn lost(&self, slot: u16) {
        let mut state = self.state.lock();
        state.wanted.remove(&slot);
        state.subscribed.remove(&slot);
    }

    /// A connection without subscriptions is used from now on. Returns its first changes, all of which the caller must
    /// send.
    pub(super) fn begin(&self) -> Vec<(Change, u16)> {
        let mut state = self.state.lock();
        state.subscribed.clear();
        state.change()
    }

    /// Waits until there is something to change. The caller must send all of it.
    pub(super) async fn changes(&self) -> Vec<(Change, u16)> {
        loop {
            let changes = self.state.lock().change();
            if !changes.is_empty() {
                return changes;
            }
            self.changed.notified().await;
        }
    }
}

impl SlotChannelsState {
    fn change(&mut self) -> Vec<(Change, u16)> {
        let unused = self.subscribed.iter().filter(|slot| !self.wanted.contains_key(slot));
        let fresh = self.wanted.keys().filter(|slot| !self.subscribed.contains(slot));
        let unsubscribe = unused.map(|slot| (Change::Unsubscribe, *slot));
        let changes = unsubscribe.chain(fresh.map(|slot| (Change::Subscribe, *slot))).collect();
        self.subscribed = self.wanted.keys().copied().collect();
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(channels: &SlotChannels) -> Vec<(Change, u16)> {
        let mut changes = channels.state.lock().change();
        changes.sort_by_key(|(_, slot)| *slot);
        changes
    }

    #[test]
    fn a_slot_is_subscribed_once_on_each_connection_and_again_after_it_was_lost() {
        let channels = SlotChannels::default();
        channels.want(7);
        channels.want(7);
        assert_eq!(changes(&channels), [(Change::Subscribe, 7)]);
        channels.want(7);
        assert_eq!(changes(&channels), []);
        assert_eq!(channels.begin(), [(Change::Subscribe, 7)]);
        channels.lost(7);
        assert_eq!(changes(&channels), [], "nothing to unsubscribe, and no wait there since");
        channels.want(7);
        assert_eq!(changes(&channels), [(Change::Subscribe, 7)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_channels_is_bounded_and_unused_ones_make_room() {
        let channels = SlotChannels::default();
        let most = u16::try_from(MOST_CHANNELS).unwrap();
        (0..=most).for_each(|slot| channels.want(slot));
        assert_eq!(channels.changes().await.len(), MOST_CHANNELS, "one too many is not subscribed");
        tokio::time::advance(UNUSED_AFTER).await;
        channels.want(1);
        channels.want(most);
        let changes = changes(&channels);
        assert_eq!(changes.len(), MOST_CHANNELS);
        assert_eq!(changes.last(), Some(&(Change::Subscribe, most)));
        assert!(!changes.contains(&(Change::Unsubscribe, 1)), "it is in use");
    }
}
