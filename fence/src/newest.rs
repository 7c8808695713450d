//! The newest tokens of keys, in bounded memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The newest accepted token of each key. An older token of that key is never accepted afterwards, even if the key was
/// forgotten: no forgotten token was above `floor`, and an unknown key is not accepted below `floor`.
#[derive(Debug)]
pub(crate) struct Newest {
    capacity: usize,
    floor: u64,
    tokens: HashMap<Arc<str>, u64>,
    /// The same entries by token: the smallest token is forgotten first, because it raises the floor the least.
    by_token: BTreeSet<(u64, Arc<str>)>,
}

impl Newest {
    pub(crate) fn new(capacity: usize) -> Self {
        Newest { capacity, floor: 0, tokens: HashMap::new(), by_token: BTreeSet::new() }
    }

    pub(crate) fn raise_floor(&mut self, token: u64) {
        self.floor = self.floor.max(token);
    }

    /// Accepts a token, unless it is older than an accepted token of this key, or than a token that may have been
    /// forgotten.
    #[must_use]
    pub(crate) fn lets_in(&mut self, key: &str, token: u64) -> bool {
        let known = self.tokens.get_key_value(key).map(|(key, newest)| (Arc::clone(key), *newest));
        let least = known.as_ref().map_or(self.floor, |(_, newest)| *newest);
        if token < least {
            return false;
        }
        let key = match known {
            Some(known) if known.1 == token => return true,
            Some((key, newest)) => {
                let entry = (newest, key);
                self.by_token.remove(&entry);
                entry.1
            }
            None => Arc::from(key),
        };
        self.tokens.insert(Arc::clone(&key), token);
        self.by_token.insert((token, key));
        if self.tokens.len() > self.capacity
            && let Some((oldest, key)) = self.by_token.pop_first()
        {
            self.tokens.remove(&key);
            self.raise_floor(oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a memory without bounds.
    #[test]
    fn an_older_token_is_never_let_in_whatever_was_forgotten() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let capacity = random.usize(..6);
            let (mut bounded, mut all) = (Newest::new(capacity), HashMap::new());
            for step in 0..1_000 {
                let (key, token) = (random.u8(..10).to_string(), step / 10 + random.u64(..30));
                let newest = all.entry(key.clone()).or_insert(0);
                if bounded.lets_in(&key, token) {
                    assert!(token >= *newest, "seed {seed}: {key} {token} after {newest}");
                    *newest = token;
                }
                assert!(bounded.tokens.len() <= capacity);
                assert_eq!(bounded.tokens.len(), bounded.by_token.len());
            }
        }
    }

    /// If no token has to be forgotten, only older tokens are refused.
    #[test]
    fn with_room_for_all_keys_each_key_has_tokens_of_its_own() {
        let mut newest = Newest::new(2);
        for (key, token) in [("a", 100), ("b", 1), ("a", 100), ("b", 2), ("a", 101)] {
            assert!(newest.lets_in(key, token), "{key} {token}");
        }
        assert!(!newest.lets_in("a", 100));
        assert!(!newest.lets_in("b", 1));
    }

    #[test]
    fn an_unknown_key_needs_a_token_that_is_not_below_the_floor() {
        let mut newest = Newest::new(1);
        assert!(newest.lets_in("a", 5));
        // `a` is forgotten, which raises the floor.
        assert!(newest.lets_in("b", 6));
        assert!(!newest.lets_in("a", 4));
        assert!(!newest.lets_in("c", 4));
        assert!(newest.lets_in("a", 5));
    }
}
