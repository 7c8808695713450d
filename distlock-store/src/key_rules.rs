//! The keys that a store can keep.

use std::fmt;

/// The keys that a store can keep, including the prefix.
///
/// ```
/// use distlock::store::KeyRules;
///
/// let rules = KeyRules::any().at_most(250).without(char::is_whitespace, "white space");
/// # drop(rules);
/// ```
#[derive(Clone)]
pub struct KeyRules {
    at_most: Option<usize>,
    refuses: Option<Refused>,
}

/// The refused characters, and their name.
type Refused = (fn(char) -> bool, &'static str);

impl KeyRules {
    /// Any key of up to 1 280 bytes of UTF-8.
    ///
    /// ```
    /// use distlock::store::KeyRules;
    ///
    /// let rules = KeyRules::any();
    /// # drop(rules);
    /// ```
    #[must_use]
    pub fn any() -> Self {
        KeyRules { at_most: None, refuses: None }
    }

    /// Refuses keys of more than this many bytes.
    ///
    /// ```
    /// use distlock::store::KeyRules;
    ///
    /// let rules = KeyRules::any().at_most(250);
    /// # drop(rules);
    /// ```
    #[must_use]
    pub fn at_most(self, bytes: usize) -> Self {
        KeyRules { at_most: Some(bytes), ..self }
    }

    /// Refuses keys with a character for which `refuses` returns true. `which` names these characters in the error, for
    /// example "white space".
    ///
    /// ```
    /// use distlock::store::KeyRules;
    ///
    /// let rules = KeyRules::any().without(char::is_control, "control characters");
    /// # drop(rules);
    /// ```
    #[must_use]
    pub fn without(self, refuses: fn(char) -> bool, which: &'static str) -> Self {
        KeyRules { refuses: Some((refuses, which)), ..self }
    }

    /// The reason why `key` is refused, if it is.
    #[doc(hidden)]
    #[must_use]
    pub fn objection(&self, key: &str) -> Option<String> {
        if let Some(most) = self.at_most.filter(|most| key.len() > *most) {
            let length = key.len();
            return Some(format!(
                "the key has {length} bytes with its prefix, and the store accepts {most}; hash the long part \
                 of it"
            ));
        }
        let (refuses, which) = self.refuses?;
        key.contains(refuses).then(|| format!("the store does not accept a key with {which} in it"))
    }
}

impl fmt::Debug for KeyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRules")
            .field("at_most", &self.at_most)
            .field("without", &self.refuses.map(|(_, which)| which))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_measured_and_read() {
        let rules = KeyRules::any().at_most(4).without(char::is_whitespace, "white space");
        assert_eq!(rules.objection("abcd"), None);
        assert!(rules.objection("abcde").is_some_and(|text| text.contains("5 bytes")));
        assert!(rules.objection("a b").is_some_and(|text| text.contains("white space")));
        assert_eq!(KeyRules::any().objection("a b"), None);
    }
}
