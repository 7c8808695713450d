//! An error in a URL or an option.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A sentence that says what to write instead. It never quotes a URL, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(Cow<'static, str>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ConfigError {}

impl From<&'static str> for ConfigError {
    fn from(text: &'static str) -> ConfigError {
        ConfigError(Cow::Borrowed(text))
    }
}

impl From<String> for ConfigError {
    fn from(text: String) -> ConfigError {
        ConfigError(Cow::Owned(text))
    }
}

/// The reason in a [`LockError`](crate::LockError).
impl From<ConfigError> for Arc<str> {
    fn from(error: ConfigError) -> Arc<str> {
        Arc::from(&*error.0)
    }
}
