//! The owners of this process in the queue, and the possible age of a grant to them.

use std::collections::HashMap;
use std::time::Instant;

use distlock_store::kit::sync::Locked;
use distlock_store::{Grant, Owner, StoreEvents};

/// What is known of each that waits.
#[derive(Debug, Default)]
pub(super) struct Grants {
    waiting: Locked<HashMap<String, QueuedRequest>>,
}

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    /// Just before the last command was sent whose answer said that it waits: a grant is younger. So no clock of the
    /// server's is asked for the age of a grant.
    asked: Instant,
    is_fenced: bool,
}

impl Grants {
    pub(super) fn waits(&self, owner: &Owner, asked: Instant, fences: u32) {
        let place = QueuedRequest { asked, is_fenced: fences > 0 };
        self.waiting.lock().insert(owner.as_str().to_owned(), place);
    }

    /// It waits no more, or holds the lock already.
    pub(super) fn ends(&self, owner: &Owner) {
        self.waiting.lock().remove(owner.as_str());
    }

    pub(super) fn clear(&self) {
        self.waiting.lock().clear();
    }

    /// Passes on a message to a waiter. OWNER FENCE KEY: it holds the key; OWNER `free` KEY: it may request the key.
    /// The key is in hexadecimal digits. Anything else comes from other programs.
    ///
    /// Every role of the database may notify. With a fencing token that one of them has made up, the data would refuse
    /// all later ones: so a fenced grant is asked about, and its token is read from the table.
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
        let grant = match self.waiting.lock().remove(owner) {
            Some(QueuedRequest { asked, is_fenced: false }) => Grant::new().at_most_old(asked.elapsed()),
            // Or the answer that it waits is still on its way, or it has given up.
            Some(QueuedRequest { is_fenced: true, .. }) | None => Grant::new(),
        };
        events.granted(&key, owner, grant);
    }
}

pub(super) fn unhex(word: &str) -> Option<String> {
    // (A sign would be read as a part of the number.)
    let digits = |at| u8::from_str_radix(word.get(at..at + 2).filter(|two| !two.starts_with('+'))?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..word.len()).step_by(2).map(digits).collect();
    String::from_utf8(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
