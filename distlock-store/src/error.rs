//! Errors of a store.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::escaped::Escaped;
use crate::failure::{Failure, OwnLines, is_told, told};

/// An error of a store, with a promise about its command. Choose the error by its promise. When in doubt, choose
/// [`unknown`](StoreError::unknown).
///
/// | error | the command | consequence | if the promise is false |
/// |---|---|---|---|
/// | [`not_sent`](StoreError::not_sent) | has not left this process | it is retried | a lock or a place in the queue remains until its ttl is over |
/// | [`later`](StoreError::later) | did nothing; the store refuses for now | it is retried, less and less often | a lock or a place in the queue remains until its ttl is over |
/// | [`unknown`](StoreError::unknown) | was executed, or will be within 5 s, or never | it is retried, and its possible effect is undone | – |
/// | [`refused`](StoreError::refused) | did nothing or a part, and will be refused again | the request fails at once, and its possible effect is undone | requests fail that could have succeeded |
///
/// ```
/// use std::io::ErrorKind;
/// use distlock::store::StoreError;
///
/// /// Of a client that tells what kind of failure it was.
/// fn store_error(error: std::io::Error) -> StoreError {
///     match error.kind() {
///         ErrorKind::ConnectionRefused => StoreError::not_sent(error),
///         ErrorKind::PermissionDenied => StoreError::refused(error),
///         _ => StoreError::unknown(error), // when in doubt
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct StoreError {
    /// The promise about the command.
    #[doc(hidden)]
    pub kind: Failure,
    #[doc(hidden)]
    pub source: Arc<dyn Error + Send + Sync>,
}

impl StoreError {
    /// There is no connection. The command has not left this process, and never will.
    ///
    /// ```
    /// let error = distlock::store::StoreError::not_sent("not connected");
    /// assert_eq!(error.to_string(), "not connected");
    /// ```
    pub fn not_sent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StoreError::new(Failure::NotSent, source)
    }

    /// The store refuses for now, and has done nothing. For example, it is starting or overloaded, or a transaction
    /// lost a conflict and was rolled back.
    ///
    /// ```
    /// let error = distlock::store::StoreError::later("the server is starting");
    /// assert_eq!(error.to_string(), "the server is starting");
    /// ```
    pub fn later(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StoreError::new(Failure::Later, source)
    }

    /// The connection broke, or the reply is missing or was not understood. The command may have been executed, or may
    /// still be executed.
    ///
    /// ```
    /// let error = distlock::store::StoreError::unknown("the connection was reset");
    /// assert_eq!(error.to_string(), "the connection was reset");
    /// ```
    pub fn unknown(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StoreError::new(Failure::Unknown, source)
    }

    /// The store has refused permanently: for example a missing permission, a wrong password, or a missing table.
    ///
    /// ```
    /// let error = distlock::store::StoreError::refused("the table `locks` is missing");
    /// assert_eq!(error.to_string(), "the table `locks` is missing");
    /// ```
    pub fn refused(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StoreError::new(Failure::Refused, source)
    }

    /// Like [`refused`](Self::refused), with a script that an operator has to run. The script is shown unchanged, line
    /// by line. All other text in an error is shown in one line (see [`Escaped`](crate::Escaped)).
    ///
    /// ```
    /// let error = distlock::store::StoreError::refused_with_script("no table: run this", "CREATE TABLE t (\n);");
    /// assert_eq!(error.to_string(), "no table: run this\n\nCREATE TABLE t (\n);");
    /// ```
    pub fn refused_with_script(text: impl fmt::Display, script: &str) -> Self {
        StoreError::refused(OwnLines(format!("{}\n\n{script}", Escaped(text))))
    }

    /// Whether it was made from an error of the type `T`.
    ///
    /// ```
    /// let error = distlock::store::StoreError::unknown(std::io::Error::other("reset"));
    /// assert!(error.is::<std::io::Error>() && !error.is::<std::fmt::Error>());
    /// ```
    pub fn is<T: Error + 'static>(&self) -> bool {
        is_told::<T>(&*self.source)
    }

    #[doc(hidden)]
    pub fn new(kind: Failure, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StoreError { kind, source: told(source.into()) }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
