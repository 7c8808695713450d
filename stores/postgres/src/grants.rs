//! The owners of this process in the queue, and the possible age of a grant to them.

use std::collections::HashMap;
use std::time::Instant;

use distlock_store::kit::sync::Locked;
use distlock_store::{Grant, Owner, StoreEvents};

/// The data of each owner that waits.
#[derive(Debug, Default)]
pub(super) struct Grants {
    waiting: Locked<HashMap<String, QueuedRequest>>,
}

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    /// Taken just before the last command was sent whose reply said that the owner waits. A grant is younger. So the
    /// age of a grant needs no server clock.
    asked: Instant,
    is_fenced: bool,
}

impl Grants {
    pub(super) fn waits(&self, owner: &Owner, asked: Instant, fences: u32) {
        let place = QueuedRequest { asked, is_fenced: fences > 0 };
        self.waiting.lock().insert(owner.as_str().to_owned(), place);
    }

    /// The owner no longer waits, or already holds the lock.
    pub(super) fn ends(&self, owner: &Owner) {
        self.waiting.lock().remove(owner.as_str());
    }

    pub(super) fn clear(&self) {
        self.waiting.lock().clear();
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
        let grant = match self.waiting.lock().remove(owner) {
            Some(QueuedRequest { asked, is_fenced: false }) => Grant::new().at_most_old(asked.elapsed()),
            // For `None`: the reply that it waits is still in flight, or it no longer waits.
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
