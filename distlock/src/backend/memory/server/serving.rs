//! Granting a key to the waiters in its queue.

use std::sync::Arc;

use super::key_entry::{QueueEntry, plus};
use super::{ModelServer, News, Note};
use crate::backend::{ReleaseReply, ServerTime, shared_token_text};
use crate::protocol::mutated;

impl ModelServer {
    /// Frees the key, for the queue or (in a gap) for any client.
    pub(super) fn hand_over(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        handoffs_began: Option<ServerTime>,
        notes: &mut Vec<Note>,
    ) -> ReleaseReply {
        let handoffs_began = handoffs_began.unwrap_or(server_time);
        let slot = self.slot(key);
        slot.value = None;
        slot.members.clear();
        let is_gap = self.tuning.poll_gap_is_due(handoffs_began.0, server_time.0);
        let offer = if is_gap { Offer::Gap } else { Offer::Lock };
        self.serve_run(server_time, key, handoffs_began, offer, notes)
    }

    pub(super) fn serve(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        handoffs_began: Option<ServerTime>,
        notes: &mut Vec<Note>,
    ) {
        let handoffs_began = handoffs_began.unwrap_or(server_time);
        self.serve_run(server_time, key, handoffs_began, Offer::Lock, notes);
    }

    /// Grants the lock to all waiters at the front of the queue that are compatible with the holders, or tells the
    /// first one that there is a gap.
    fn serve_run(
        &mut self,
        server_time: ServerTime,
        key: &Arc<str>,
        handoffs_began: ServerTime,
        offer: Offer,
        notes: &mut Vec<Note>,
    ) -> ReleaseReply {
        while let Some(entry) = self.slot(key).queue.pop_front() {
            if entry.until <= server_time && !mutated!(DeadEntriesNotSkipped) {
                continue;
            }
            let (client, token, kind) = (entry.client.clone(), entry.token, entry.kind);
            if !self.slot(key).has_room(server_time, kind) {
                self.slot(key).queue.push_front(entry);
                break;
            }
            // A waiter that polls gets its fencing token when it asks.
            let fences = if entry.listens { entry.fences } else { 0 };
            if !self.is_heard(&entry) {
                // The script learns this only after it has reserved the tokens.
                self.mint(server_time, if offer == Offer::Gap { 0 } else { fences });
                continue;
            }
            let mut note = |news| {
                if entry.listens {
                    notes.push(Note { client: client.clone(), key: key.clone(), token, news });
                }
            };
            if offer == Offer::Gap {
                if self.tuning.poll_gap_interval.is_zero() {
                    if !entry.listens {
                        continue;
                    }
                    note(News::Grant { server_time, handoffs_began, fence: None });
                    let holder = shared_token_text(&client, token);
                    self.slot(key).put(server_time, kind, holder, plus(server_time, entry.claim));
                } else {
                    note(News::Gap);
                    self.slot(key).queue.push_front(entry);
                }
                return ReleaseReply::Released { gap: true };
            }
            let fence = entry.minted.or_else(|| self.mint(server_time, fences));
            note(News::Grant { server_time, handoffs_began, fence });
            let holder = shared_token_text(&client, token);
            self.slot(key).put(server_time, kind, holder, plus(server_time, entry.claim));
        }
        ReleaseReply::Released { gap: false }
    }

    /// Whether a grant would reach its client, as far as can be known.
    fn is_heard(&self, entry: &QueueEntry) -> bool {
        if mutated!(DeadEntriesNotSkipped) {
            return true;
        }
        let counts = self.counts || mutated!(PublishCountTrusted);
        let heard = !counts || (self.counts && self.listeners.contains(&entry.client));
        if entry.listens { heard } else { !mutated!(PollWaiterDropped) }
    }
}

/// What the queue is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Lock,
    /// The key is left free for plain pollers.
    Gap,
}
