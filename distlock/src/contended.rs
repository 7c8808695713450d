//! Keys that were found busy a moment ago: who polls for one of them looks before it writes, and who releases one
//! expects others to wait.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer than the longest pause between two questions for a key that is busy.
const MOMENT: Duration = Duration::from_millis(500);
/// More are forgotten all at once: each costs one command that need not have been.
const MOST: usize = 4_096;

/// Keys that were found busy a moment ago: a hint, which may be wrong.
#[derive(Debug, Default)]
pub(crate) struct Contended(Mutex<HashMap<String, Instant>>);

impl Contended {
    fn keys(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is(&self, key: &str) -> bool {
        self.keys().get(key).is_some_and(|since| since.elapsed() < MOMENT)
    }

    pub(crate) fn noted(&self, key: &str) {
        let mut keys = self.keys();
        if let Some(since) = keys.get_mut(key) {
            *since = Instant::now();
            return;
        }
        if keys.len() >= MOST {
            keys.clear();
        }
        keys.insert(key.to_owned(), Instant::now());
    }

    #[cfg(any(feature = "mysql", feature = "memcached"))]
    pub(crate) fn ended(&self, key: &str) {
        let mut keys = self.keys();
        if !keys.is_empty() {
            keys.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_keys_are_remembered_than_fit() {
        let contended = Contended::default();
        for number in 0..MOST * 2 + 1 {
            contended.noted(&number.to_string());
            assert!(contended.is(&number.to_string()));
        }
        assert!(contended.keys().len() <= MOST);
    }

    #[cfg(any(feature = "mysql", feature = "memcached"))]
    #[test]
    fn a_key_that_was_given_up_is_not_contended() {
        let contended = Contended::default();
        contended.noted("a");
        contended.ended("a");
        assert!(!contended.is("a"));
    }
}
