//! Waiting for the first connection.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use super::{LockManager, LockManagerBuilder};
use crate::backend::ConnectOn;
use crate::backend::{Failure, OpError};
use crate::driver::LinkSeen;
use crate::error::LockError;

/// How long `connect` tries, unless one attempt may take longer.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A manager that has not connected yet.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) manager: LockManager,
    /// How long one attempt to connect may take.
    pub(super) longest_attempt: Duration,
}

impl Built {
    /// For a store that needs no connection of ours, or that limits the time itself.
    pub(super) fn at_once(manager: LockManager) -> Built {
        Built { manager, longest_attempt: Duration::ZERO }
    }

    fn connects_within(&self) -> Duration {
        CONNECT_WITHIN.max(self.longest_attempt)
    }
}

/// Why `connect` has failed: the last error, and how long it has tried.
#[derive(Debug)]
struct GaveUp {
    error: OpError,
    tried: Option<Duration>,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        match self.tried {
            Some(tried) => write!(f, " (tried again for {tried:?})"),
            None => Ok(()),
        }
    }
}

impl Error for GaveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source.source()
    }
}

impl LockManagerBuilder {
    /// Connects. It tries again while the server cannot be reached: a refused connection, a name that is not
    /// known (yet), a server that is still loading its data, sentinels that name no master. Gives up after 5
    /// s, or after the [`connect_timeout`](Self::connect_timeout) if that is longer. Fails at once if another
    /// attempt cannot help: a wrong password, another kind of server.
    ///
    /// # Errors
    /// As [`LockManager::connect`].
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn connect(self) -> Result<LockManager, LockError> {
        let built = self.build(ConnectOn::Start)?;
        let within = built.connects_within();
        let manager = built.manager;
        let core = manager.core();
        let unavailable = |error, tried| LockError::unavailable("", GaveUp { error, tried });
        if let Some(error) = core.refusal() {
            return Err(unavailable(error, None));
        }
        match core.link_within(within).await {
            LinkSeen::Up => Ok(manager),
            LinkSeen::Down(error) if error.kind == Failure::Refused => Err(unavailable(error, None)),
            LinkSeen::Down(error) => Err(unavailable(error, Some(within))),
            LinkSeen::NotYet => {
                let text = format!("{} does not answer", core.backend.describe());
                Err(unavailable(OpError::new(Failure::Unknown, text), Some(within)))
            }
        }
    }
}

#[cfg(test)]
#[cfg(feature = "redis")]
mod tests {
    use super::*;

    fn connects_within(builder: LockManagerBuilder) -> Duration {
        builder.build(ConnectOn::FirstUse).unwrap().connects_within()
    }

    #[test]
    fn connect_never_gives_up_before_one_attempt_may_have_ended() {
        let seconds = Duration::from_secs;
        let url = |url: &str| LockManager::builder().url(url);
        assert_eq!(connects_within(url("memory:")), seconds(5));
        assert_eq!(connects_within(url("redis://h")), seconds(5));
        assert_eq!(connects_within(url("redis://h").connect_timeout(seconds(1))), seconds(5));
        assert_eq!(connects_within(url("redis://h").connect_timeout(seconds(8))), seconds(8));
        assert_eq!(connects_within(url("redis+cluster://h?connect_timeout=9s")), seconds(9));
        let quorum = ["redis://a", "redis://b?connect_timeout=7s", "redis://c"];
        assert_eq!(connects_within(LockManager::builder().quorum(quorum)), seconds(7));
    }
}
