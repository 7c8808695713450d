//! Keys that have a row, as far as this process knows.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// More are forgotten all at once: each costs one slower statement.
const MOST: usize = 16_384;

/// Keys that have a row: a hint, which may be wrong, since any process removes rows that are idle for long.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashSet<String>>);

impl Known {
    fn keys(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is(&self, key: &str) -> bool {
        self.keys().contains(key)
    }

    pub(super) fn noted(&self, key: &str) {
        let mut keys = self.keys();
        if keys.len() >= MOST {
            keys.clear();
        }
        keys.insert(key.to_owned());
    }

    pub(super) fn is_gone(&self, key: &str) {
        self.keys().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_keys_are_known_than_fit() {
        let known = Known::default();
        for number in 0..MOST * 2 + 1 {
            known.noted(&number.to_string());
            assert!(known.is(&number.to_string()));
        }
        assert!(known.keys().len() <= MOST);
    }

    #[test]
    fn a_key_whose_row_is_gone_is_not_known() {
        let known = Known::default();
        known.noted("a");
        known.is_gone("a");
        assert!(!known.is("a"));
    }
}
