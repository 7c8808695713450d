//! Hints about keys, which may be wrong. Their number is limited.

use std::collections::HashMap;
use std::sync::MutexGuard;

use crate::kit::sync::Locked;

/// Something about each of some keys. When there are too many, all are forgotten at once.
#[derive(Debug)]
pub struct Remembered<T> {
    keys: Locked<HashMap<String, T>>,
    most: usize,
}

impl<T: Copy> Remembered<T> {
    /// Remembers this many keys.
    #[must_use]
    pub fn at_most(most: usize) -> Self {
        Remembered { keys: Locked::default(), most }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<String, T>> {
        self.keys.lock()
    }

    /// The latest value that was remembered for the key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<T> {
        self.keys().get(key).copied()
    }

    /// Remembers this of the key.
    pub fn set(&self, key: &str, value: T) {
        let mut keys = self.keys();
        if let Some(former) = keys.get_mut(key) {
            *former = value;
            return;
        }
        if keys.len() >= self.most {
            keys.clear();
        }
        keys.insert(key.to_owned(), value);
    }

    /// Forgets the key.
    pub fn forget(&self, key: &str) {
        let mut keys = self.keys();
        if !keys.is_empty() {
            keys.remove(key);
        }
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.keys().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 100;

    #[test]
    fn no_more_keys_are_remembered_than_fit() {
        let remembered = Remembered::at_most(MOST);
        for number in 0..MOST * 2 + 1 {
            remembered.set(&number.to_string(), number);
            assert_eq!(remembered.get(&number.to_string()), Some(number));
        }
        assert!(remembered.count() <= MOST);
    }

    #[test]
    fn the_last_value_of_a_key_counts_and_costs_no_other_key() {
        let remembered = Remembered::at_most(2);
        for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
            remembered.set(key, value);
        }
        assert_eq!((remembered.get("a"), remembered.get("b")), (Some(3), Some(2)));
    }

    #[test]
    fn what_is_forgotten_is_not_there() {
        let remembered = Remembered::at_most(2);
        remembered.set("a", ());
        remembered.forget("a");
        assert_eq!(remembered.get("a"), None);
    }
}
