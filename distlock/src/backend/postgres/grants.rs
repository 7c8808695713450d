//! Who of this process stands in the queue, and how old a grant to it can be.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use super::link::lock;
use crate::store::{Grant, Owner, StoreEvents};

/// What is known of each that waits.
#[derive(Debug, Default)]
pub(super) struct Grants {
    waiting: Mutex<HashMap<String, Place>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Just before the last command was sent whose answer said that it waits: a grant is younger. So no clock of the
    /// server's is asked for the age of a grant.
    asked: Instant,
    is_fenced: bool,
}

impl Grants {
    pub(super) fn waits(&self, owner: &Owner, asked: Instant, fences: u32) {
        let place = Place { asked, is_fenced: fences > 0 };
        lock(&self.waiting).insert(owner.as_str().to_owned(), place);
    }

    /// It waits no more, or holds the lock already.
    pub(super) fn ends(&self, owner: &Owner) {
        lock(&self.waiting).remove(owner.as_str());
    }

    pub(super) fn clear(&self) {
        lock(&self.waiting).clear();
    }

    /// Passes a grant on: OWNER FENCE KEY, the key in hexadecimal digits. Anything else is somebody else's.
    pub(super) fn heard(&self, payload: &str, events: &StoreEvents) {
        let mut words = payload.split(' ');
        let (Some(owner), Some(fence), Some(key)) = (words.next(), words.next(), words.next()) else {
            return;
        };
        let (Ok(fence), Some(key)) = (fence.parse(), unhex(key)) else { return };
        let grant = match lock(&self.waiting).remove(owner) {
            Some(place) => {
                let grant = Grant::new().at_most_old(place.asked.elapsed());
                if place.is_fenced { grant.fence(fence) } else { grant }
            }
            // The answer that it waits is still on its way, or it has given up.
            None => Grant::new(),
        };
        events.granted(&key, owner, grant);
    }
}

fn unhex(word: &str) -> Option<String> {
    let digits = |at| u8::from_str_radix(word.get(at..at + 2)?, 16).ok();
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
        for word in ["1", "zz", "ff", "é0"] {
            assert_eq!(unhex(word), None, "{word}");
        }
    }
}
