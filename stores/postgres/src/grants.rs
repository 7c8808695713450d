//! The owners of this process in the queue, and the possible age of a grant to them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;
use distlock_store::{Grant, Owner, StoreEvents};

/// The entries that a sweep leaves, at most, before the next one.
const SWEPT_AT_LEAST: usize = 1_024;
/// An owner that has not asked for this long no longer waits: its place in the queue has ended long ago. It held the
/// lock, and lost it without a release.
const NO_LONGER_WAITS: Duration = Duration::from_secs(60);

/// The data of each owner that waits.
#[derive(Debug, Default)]
pub(super) struct Grants {
    waiting: Locked<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    owners: HashMap<String, QueuedRequest>,
    /// With this number of owners, those that no longer wait are removed.
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    /// A grant that was not heard of yet was made later. So the age of a grant needs no server clock. The process's
    /// clock continues while the machine is suspended, as the claim does on the server.
    since: Time,
    /// When the last command was sent.
    asked: Time,
    /// The shortest claim that the place may have.
    claim: Duration,
    is_fenced: bool,
}

impl Grants {
    /// Called before a command is sent that may put the owner into the queue. Returns whether it is the first one.
    pub(super) fn asks(&self, owner: &Owner, asked: Time, claim: Duration, fences: u32) -> bool {
        let Waiting { owners, sweep_at } = &mut *self.waiting.lock();
        if owners.len() >= (*sweep_at).max(SWEPT_AT_LEAST) {
            owners.retain(|_, place| asked.duration_since(place.asked) < NO_LONGER_WAITS);
            *sweep_at = owners.len() * 2;
        }
        let is_fenced = fences > 0;
        match owners.entry(owner.as_str().to_owned()) {
            Entry::Occupied(mut place) => {
                let place = place.get_mut();
                (place.asked, place.claim) = (asked, place.claim.min(claim));
                place.is_fenced |= is_fenced;
                false
            }
            Entry::Vacant(place) => {
                place.insert(QueuedRequest { since: asked, asked, claim, is_fenced });
                true
            }
        }
    }

    /// The reply to a command that was sent at `asked` said that the owner waits.
    ///
    /// The notification of an earlier grant may still be under way: the grant expired, and the command has put the
    /// owner into the queue again. But a grant lasts for a claim, and then the reply would have said that the owner
    /// holds the lock. So there was no grant in less than a claim.
    pub(super) fn waits(&self, owner: &Owner, asked: Time, replied: Time) {
        if let Some(place) = self.waiting.lock().owners.get_mut(owner.as_str())
            // The server's clock may be faster than this one.
            && replied.duration_since(place.since) < place.claim * 9 / 10
        {
            place.since = place.since.max(asked);
        }
    }

    /// The owner no longer waits, or already holds the lock.
    pub(super) fn ends(&self, owner: &Owner) {
        self.waiting.lock().owners.remove(owner.as_str());
    }

    pub(super) fn clear(&self) {
        self.waiting.lock().owners.clear();
    }

    /// Passes on a message to a waiter. OWNER FENCE KEY: the owner holds the key. OWNER `free` KEY: it may request the
    /// key. The key is in hexadecimal digits. Anything else comes from other programs.
    ///
    /// Every role of the database may notify. If one of them invented a high fencing token, the data would refuse all
    /// later tokens. So a command confirms a grant with a fencing token, and reads the token from the table.
    pub(super) fn heard(&self, payload: &str, events: &StoreEvents) {
        let mut words = payload.split(' ');
        let (Some(owner), Some(fence), Some(key)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        let Some(key) = unhex(key) else { return };
        if fence == "free" {
            return events.released(&key);
        }
        if fence.parse::<i64>().is_err() {
            return;
        }
        // The entry stays, because a later command may have put the owner into the queue again, and then there may be
        // another grant that was not heard of yet.
        let grant = match self.waiting.lock().owners.get(owner) {
            Some(QueuedRequest { since, is_fenced: false, .. }) => Grant::new().made_at(*since),
            // For `None`: it no longer waits.
            Some(QueuedRequest { is_fenced: true, .. }) | None => Grant::new(),
        };
        events.granted(&key, owner, grant);
    }
}

pub(super) fn unhex(word: &str) -> Option<String> {
    // `from_str_radix` would accept a sign as a part of the number.
    let digits = |at| u8::from_str_radix(word.get(at..at + 2).filter(|two| !two.starts_with('+'))?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..word.len()).step_by(2).map(digits).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use distlock_store::clock;
    use distlock_store::engine::Report;
    use tokio::sync::{mpsc, watch};

    use super::*;

    const CLAIM: Duration = Duration::from_secs(3);

    fn owner(number: u64) -> Owner {
        Owner::new("one", number)
    }

    fn since(grants: &Grants, owner: &Owner) -> Time {
        grants.waiting.lock().owners[owner.as_str()].since
    }

    /// The first command queues the owner. It is granted the lock, but the notification is late, and the grant expires.
    /// The next command, sent before that and executed after it, finds another holder.
    #[test]
    fn a_late_notification_of_an_expired_grant_is_not_reported_as_younger() {
        let (grants, owner, begun) = (Grants::default(), owner(1), clock::now());
        assert!(grants.asks(&owner, begun, CLAIM, 0));
        grants.waits(&owner, begun, begun);
        let again = begun.after(CLAIM * 4 / 5);
        assert!(!grants.asks(&owner, again, CLAIM, 0));
        grants.waits(&owner, again, begun.after(CLAIM));
        assert_eq!(since(&grants, &owner), begun);
        // Nor after further commands, as long as the notification may be under way.
        let later = begun.after(CLAIM * 2);
        grants.asks(&owner, later, CLAIM, 0);
        grants.waits(&owner, later, later);
        assert_eq!(since(&grants, &owner), begun);
    }

    #[test]
    fn a_grant_is_younger_than_a_command_that_was_answered_within_a_claim() {
        let (grants, owner, begun) = (Grants::default(), owner(1), clock::now());
        for heartbeat in 0..5 {
            let asked = begun.after(CLAIM * 4 / 5 * heartbeat);
            grants.asks(&owner, asked, CLAIM, 0);
            grants.waits(&owner, asked, asked.after(CLAIM / 20));
            assert_eq!(since(&grants, &owner), asked);
        }
    }

    /// On the clock that continues while the machine is suspended.
    #[test]
    fn a_grant_may_be_as_old_as_the_last_command() {
        let (grants, owner) = (Grants::default(), owner(1));
        let asked = clock::now();
        grants.asks(&owner, asked, CLAIM, 0);
        let (sender, mut reports) = mpsc::unbounded_channel();
        let events = StoreEvents::new("one".into(), sender, Arc::default(), watch::channel(true).1);
        grants.heard(&format!("{} 0 6b", owner.as_str()), &events);
        let Ok(Report::Granted { made: Some(made), .. }) = reports.try_recv() else {
            panic!("no grant of known age")
        };
        assert_eq!(made, asked);
    }

    /// A reply that was lost may have left a place with the shorter claim.
    #[test]
    fn the_shortest_claim_counts_even_if_its_reply_was_lost() {
        let (grants, owner, begun) = (Grants::default(), owner(1), clock::now());
        grants.asks(&owner, begun, CLAIM, 0);
        grants.waits(&owner, begun, begun);
        grants.asks(&owner, begun.after(CLAIM / 10), CLAIM / 10, 0);
        let again = begun.after(CLAIM / 2);
        grants.asks(&owner, again, CLAIM, 0);
        grants.waits(&owner, again, again);
        assert_eq!(since(&grants, &owner), begun);
    }

    #[test]
    fn owners_that_no_longer_wait_are_removed() {
        let (grants, begun) = (Grants::default(), clock::now());
        for number in 0..100_000 {
            let asked = begun.after(NO_LONGER_WAITS / 1_000 * number);
            grants.asks(&owner(number.into()), asked, CLAIM, 0);
        }
        let left = grants.waiting.lock().owners.len();
        assert!(left <= 1_000 * 2 + 1, "{left}");
    }

    #[test]
    fn a_key_of_any_text_comes_back() {
        for key in ["", "order:42", "günther:\u{1f980}", "\u{1}\u{0}"] {
            let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(unhex(&hex).as_deref(), Some(key));
        }
        for word in ["1", "zz", "ff", "é0", "+1"] {
            assert_eq!(unhex(word), None, "{word}");
        }
    }
}
