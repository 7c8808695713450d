//! Keys that were busy a moment ago. A process that polls for such a key reads before it writes, and a process that
//! releases one expects waiters.

use std::time::{Duration, Instant};

use crate::kit::remembered::Remembered;

/// Longer than the longest pause between two questions for a key that is busy.
const REMEMBERED_FOR: Duration = Duration::from_millis(500);
/// Each that is forgotten costs one command that need not have been.
const MOST: usize = 4_096;

/// Keys that were busy a moment ago. A hint, which may be wrong.
#[derive(Debug)]
pub struct Contended(Remembered<Instant>);

impl Default for Contended {
    fn default() -> Self {
        Contended(Remembered::at_most(MOST))
    }
}

impl Contended {
    /// Whether the key was found busy less than half a second ago.
    #[must_use]
    pub fn is(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|since| since.elapsed() < REMEMBERED_FOR)
    }

    /// The key was found busy.
    pub fn noted(&self, key: &str) {
        self.0.set(key, Instant::now());
    }

    /// The key no longer has waiters.
    pub fn ended(&self, key: &str) {
        self.0.forget(key);
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
        assert!(contended.0.count() <= MOST);
    }

    #[test]
    fn a_key_that_was_given_up_is_not_contended() {
        let contended = Contended::default();
        contended.noted("a");
        contended.ended("a");
        assert!(!contended.is("a"));
    }
}
