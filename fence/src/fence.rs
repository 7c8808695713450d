//! A key with the token of one of its holders.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The key of a lock with the fencing token of one acquisition. The database checks it.
///
/// As text, it is the key, `#`, and the token. Another service can check it with its own database, and needs no lock
/// for that.
///
/// ```
/// use distlock_fence::Fence;
///
/// let fence = Fence::new("points:42", 1_790_000_000_000_000);
/// assert_eq!(fence.to_string(), "points:42#1790000000000000");
/// assert_eq!(fence.to_string().parse(), Ok(fence));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fence {
    key: String,
    token: u64,
}

impl Fence {
    /// The fence of a holder of `key`, whose acquisition has this fencing token.
    #[must_use]
    pub fn new(key: impl Into<String>, token: u64) -> Self {
        Fence { key: key.into(), token }
    }

    /// The key, with the prefix of its manager if it has one.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The fencing token: it is larger for every later acquisition of the key.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.key, self.token)
    }
}

impl FromStr for Fence {
    type Err = ParseFenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A key may contain `#`, a token does not.
        let (key, token) = text.rsplit_once('#').ok_or(ParseFenceError { source: None })?;
        let token = token.parse().map_err(|error| ParseFenceError { source: Some(error) })?;
        Ok(Fence::new(key, token))
    }
}

/// The text is not a [`Fence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFenceError {
    source: Option<ParseIntError>,
}

impl fmt::Display for ParseFenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a fence: expected a key, `#`, and a fencing token, like `points:42#1790000000000000`",
        )
    }
}

impl std::error::Error for ParseFenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_kind_come_back_from_text() {
        for key in ["points:42", "", "a#1", "#", "ключ 鍵", "a\nb"] {
            let fence = Fence::new(key, u64::MAX);
            assert_eq!(fence.to_string().parse(), Ok(fence));
        }
        for text in ["", "points:42", "points:42#", "points:42#-1", "points:42#18446744073709551616"] {
            assert!(text.parse::<Fence>().is_err(), "{text}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_has_key_and_token() {
        let fence = Fence::new("points:42", 7);
        let json = serde_json::to_string(&fence).unwrap();
        assert_eq!(json, r#"{"key":"points:42","token":7}"#);
        assert_eq!(serde_json::from_str::<Fence>(&json).unwrap(), fence);
    }
}
