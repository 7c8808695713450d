//! The reason for giving up a connection, and the display of causes.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::error::StoreError;
use crate::escaped::Escaping;
use crate::failure::Told;

/// Escapes the cause of an error, unless it was `told` and so is escaped already.
pub fn show_cause(cause: &(dyn Error + Send + Sync + 'static), f: &mut Escaping<'_, '_>) -> fmt::Result {
    if cause.is::<Told>() || cause.is::<GaveUp>() { write!(f.0, "{cause}") } else { write!(f, "{cause}") }
}

/// Why a connection was given up: the last error, and how long it was tried.
#[derive(Debug)]
pub struct GaveUp {
    pub error: StoreError,
    pub tried: Option<Duration>,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        match self.tried {
            Some(tried) => write!(f, " (retried for {tried:?})"),
            None => Ok(()),
        }
    }
}

impl Error for GaveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source.source()
    }
}
