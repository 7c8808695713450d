//! Looks for deadlocks among requests that wait inside sections, and reports and breaks them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Core;
use super::nested_watch::Due;
use super::who::Lease;
use crate::contained::contained;
use crate::deadlock::{Deadlock, Holder, LONGEST_LOOK, Looks, Read, Records, Unfinished};
use crate::engine::Outcome;
use crate::observe::Event;
use crate::protocol::{Failure, LockKind, StoredLock, Who, parse_token};
use distlock_store::clock;

/// The reported deadlocks, by their requests of this process.
pub(super) type ReportedDeadlocks = BTreeSet<(u64, String)>;

impl Core {
    /// One look, for all requests that are due.
    pub(super) async fn look_for_deadlocks(self: &Arc<Self>, reported: &mut ReportedDeadlocks) {
        let (due, outdated) = self.nested_waits.due(clock::now());
        reported.retain(|(number, _)| self.nested_waits.is_waiting(*number));
        self.publish_waits(&due, outdated).await;
        let mut looks = Looks::new(&**self);
        for Due { number, record, .. } in due {
            match looks.look((&self.client, number), &record.key).await {
                Ok(found) => {
                    if let Some(deadlock) = self.nested_waits.judge(number, found) {
                        self.is_deadlocked(number, &Arc::new(deadlock), reported);
                    }
                }
                // Looks for the other requests would take as long.
                Err(Unfinished::TooSlow) => return,
                Err(Unfinished::Unanswered | Unfinished::TooManyKeys) => {}
            }
        }
    }

    /// Publishes each request next to the locks that its sections hold, and removes the records of those that have
    /// ended.
    async fn publish_waits(self: &Arc<Self>, due: &[Due], mut changed: BTreeSet<Lease>) {
        for Due { number, around, record } in due {
            let cells = around.upgrade().map(|around| around.holds(self.id)).unwrap_or_default();
            let leases: BTreeSet<_> = cells.iter().map(|cell| (cell.key.clone(), cell.token)).collect();
            self.note_wait(record, &leases);
            changed.extend(leases.iter().cloned());
            let left = self.nested_waits.published(*number, leases);
            self.forget_wait(*number, &left);
            changed.extend(left);
        }
        let began = clock::now();
        for lease in changed {
            let is_late = clock::now().duration_since(began) > LONGEST_LOOK;
            // A store that refuses it would refuse a retry, too.
            let is_done = !is_late
                && self.publish_waits_of(&lease).await.is_none_or(|error| error.kind == Failure::Refused);
            if !is_done {
                self.nested_waits.is_outdated(lease);
            }
        }
    }

    /// A deadlock that contains this request is certain.
    fn is_deadlocked(
        self: &Arc<Self>,
        number: u64,
        deadlock: &Arc<Deadlock>,
        reported: &mut ReportedDeadlocks,
    ) {
        let text = deadlock.to_string();
        let ours = deadlock.members().iter().map(|member| member.wait());
        let ours: Vec<u64> =
            ours.filter(|(client, _)| **client == *self.client).map(|(_, number)| number).collect();
        if ours.iter().all(|number| !reported.contains(&(*number, text.clone()))) {
            drop(contained(|| self.observers.tell(&Event::Deadlock { deadlock })));
        }
        reported.insert((number, text));
        for number in ours {
            if deadlock.ends((&self.client, number)) {
                self.end_deadlocked(number, deadlock);
            }
        }
    }

    /// Ends a request, unless it was granted meanwhile.
    fn end_deadlocked(self: &Arc<Self>, number: u64, deadlock: &Arc<Deadlock>) {
        let Some((key, ticket)) = self.nested_request(number) else { return };
        let mut requester = None;
        let ended = self.event(|engine, now| {
            let (gone, effects) = engine.on_key(now, &key, |step| step.cancel(ticket));
            requester = gone;
            effects
        });
        if let (Ok(()), Some(requester)) = (ended, requester) {
            drop(contained(|| Self::complete(requester, Outcome::Deadlock(deadlock.clone()))));
        }
    }

    /// The exclusive holder that the store names, with its published waits.
    pub(crate) fn holder_of(&self, key: &Arc<str>, found: &StoredLock) -> Option<Holder> {
        if found.kind != LockKind::Exclusive {
            return None;
        }
        let owner = found.first_holder();
        let details = found.details.iter().find(|(of, _)| of == owner).map(|(_, details)| details);
        if let Some(token) = parse_token(&self.client, owner) {
            // The own data of this process is newer than its records, which may not have reached the store.
            let waits = self.own_waits(&(key.clone(), token));
            return Some(Holder { owner: owner.into(), who: self.who(), waits });
        }
        let who = details.map_or_else(Who::default, |details| details.who.clone());
        Holder::of(owner, who, details.and_then(|details| details.value.as_deref()))
    }
}

impl Records for Core {
    fn holder(&self, key: &Arc<str>) -> Read<'_> {
        let (key, found) = (key.clone(), self.backend.inspect(key));
        Box::pin(async move { Ok(found.await?.and_then(|found| self.holder_of(&key, &found))) })
    }
}
