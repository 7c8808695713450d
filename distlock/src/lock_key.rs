//! The name of a lock. It is checked in [`key`](crate::key), whose errors name it.

use std::fmt;
use std::sync::Arc;

/// The name of a lock: 1 to 1024 bytes of UTF-8. It must not begin with `dl1:`, because the crate's own names begin
/// with it. The manager's prefix is not part of it.
///
/// Cheap to clone.
///
/// ```
/// # fn main() -> Result<(), distlock::LockError> {
/// use distlock::LockKey;
///
/// let key = LockKey::new("order:42")?;
/// assert_eq!(key.to_string(), "order:42");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockKey(Arc<str>);

impl LockKey {
    /// The key as text.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// assert_eq!(distlock::LockKey::new("order:42")?.as_str(), "order:42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.0
    }

    /// For keys that were checked before.
    pub(crate) fn from_shared(key: Arc<str>) -> Self {
        LockKey(key)
    }
}

impl AsRef<str> for LockKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
