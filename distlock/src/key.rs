//! Keys of locks.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::LockError;
pub use crate::lock_key::LockKey;
use crate::protocol::MARK;
use crate::protocol::records::LONGEST_KEY;

impl LockKey {
    /// Checks a key.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`] if it is empty, too long, or begins with `dl1:`.
    ///
    /// ```
    /// use distlock::LockKey;
    ///
    /// assert!(LockKey::new("order:42").is_ok());
    /// assert!(LockKey::new("").is_err());
    /// ```
    pub fn new(key: impl AsRef<str>) -> Result<Self, LockError> {
        let key = key.as_ref();
        check(key)?;
        Ok(LockKey::from_shared(key.into()))
    }
}

fn check(key: &str) -> Result<(), LockError> {
    if key.is_empty() {
        return Err(LockError::key("the key is empty"));
    }
    if key.len() > LONGEST_KEY {
        return Err(LockError::key(format!(
            "the key has {} bytes, and at most {LONGEST_KEY} are allowed; hash the long part of it",
            key.len()
        )));
    }
    if key.starts_with(MARK) {
        return Err(LockError::key(format!("keys that begin with `{MARK}` are reserved")));
    }
    Ok(())
}

macro_rules! text_becomes_a_key {
    ($($text:ty),*) => {$(
        /// The checked key, as by [`LockKey::new`].
        impl TryFrom<$text> for LockKey {
            type Error = LockError;

            fn try_from(key: $text) -> Result<Self, LockError> {
                LockKey::new(key)
            }
        }
    )*};
}

text_becomes_a_key!(&str, String, &String);

/// The checked key, as by [`LockKey::new`].
impl FromStr for LockKey {
    type Err = LockError;

    fn from_str(key: &str) -> Result<Self, LockError> {
        LockKey::new(key)
    }
}

/// Types that can name a lock: text of all kinds, a [`LockKey`], or a `Result` of one of them.
///
/// ```
/// use distlock::{IntoLockKey, LockError, LockKey, LockManager, LockRequest};
///
/// /// A key that cannot be mixed up with those of other things.
/// struct OrderId(u64);
///
/// impl IntoLockKey for OrderId {
///     fn into_lock_key(self) -> Result<LockKey, LockError> {
///         LockKey::new(format!("order:{}", self.0))
///     }
/// }
///
/// fn lock(manager: &LockManager, order: OrderId) -> LockRequest {
///     manager.lock(order)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock key",
    label = "not text, not a `LockKey`, and not a `Result<_, LockError>` of one",
    note = "give text, as in `format!(\"order:{{id}}\")`, or implement `IntoLockKey` for a type of your own"
)]
pub trait IntoLockKey {
    /// The checked key.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`], or the error in a `Result`.
    ///
    /// ```
    /// use distlock::IntoLockKey;
    ///
    /// assert_eq!("order:42".into_lock_key()?.as_str(), "order:42");
    /// assert!("".into_lock_key().is_err());
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    fn into_lock_key(self) -> Result<LockKey, LockError>;
}

macro_rules! text_is_a_key {
    ($($text:ty),*) => {$(
        impl IntoLockKey for $text {
            fn into_lock_key(self) -> Result<LockKey, LockError> {
                LockKey::new(self)
            }
        }
    )*};
}

text_is_a_key!(&str, String, &String, Cow<'_, str>, &Cow<'_, str>, Box<str>, &Box<str>, Arc<str>, &Arc<str>);

impl IntoLockKey for LockKey {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        // A key out of an error that a program made for its tests may be any text.
        check(self.as_str())?;
        Ok(self)
    }
}

impl IntoLockKey for &LockKey {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        self.clone().into_lock_key()
    }
}

impl<K: IntoLockKey> IntoLockKey for Result<K, LockError> {
    fn into_lock_key(self) -> Result<LockKey, LockError> {
        self?.into_lock_key()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_checked() {
        for bad in ["", "dl1:q:x", &"x".repeat(1025)] {
            assert!(matches!(LockKey::new(bad), Err(LockError::InvalidKey { .. })), "{bad:?}");
        }
        for good in ["a", "order:42", "{user}:1", &"x".repeat(1024), "ключ"] {
            assert_eq!(LockKey::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn there_is_no_way_around_the_check() {
        assert!(LockKey::try_from("").is_err());
        assert!(LockKey::try_from("dl1:x".to_owned()).is_err());
        assert!(LockKey::try_from(&"x".repeat(1025)).is_err());
        assert!("".parse::<LockKey>().is_err());
        assert_eq!(LockKey::try_from(&"k".to_owned()).unwrap().as_str(), "k");
        assert_eq!("k".parse::<LockKey>().unwrap().as_str(), "k");
    }

    #[test]
    fn everything_that_names_a_key_does() {
        for key in [
            "k".into_lock_key(),
            String::from("k").into_lock_key(),
            (&String::from("k")).into_lock_key(),
            Cow::Borrowed("k").into_lock_key(),
            LockKey::new("k").into_lock_key(),
            (&LockKey::new("k").unwrap()).into_lock_key(),
        ] {
            assert_eq!(key.unwrap().as_str(), "k");
        }
        let LockError::Lost { key, .. } = LockError::lost("dl1:x") else { panic!("not lost") };
        assert!(matches!(key.into_lock_key(), Err(LockError::InvalidKey { .. })));
        let failed: Result<LockKey, LockError> = Err(LockError::Closed);
        assert!(matches!(failed.into_lock_key(), Err(LockError::Closed)));
    }
}
