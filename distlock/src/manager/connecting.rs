//! Builds a manager: checks the options, opens the store, and awaits the first connection.

use std::sync::Arc;
use std::time::Duration;

use super::built::Built;
use super::{LockManager, LockManagerBuilder, schemes};
use crate::backend::{ConnectOn, Demand, LockKind};
use crate::backend::{Failure, StoreError};
use crate::driver::LinkSeen;
use crate::error::LockError;
use crate::protocol::GaveUp;
use crate::request::{NO_WAITERS, valid_linger};
use crate::ttl::valid_ttl;

const LONGEST_CLIENT_NAME: usize = 64;

impl LockManagerBuilder {
    /// Connects. It retries while the server is unreachable: a refused connection, a name that does not resolve (yet),
    /// a server that is still loading its data, sentinels that name no master. It fails after 5 s, or after the longest
    /// time that one attempt may take, if that is longer: the [`connect_timeout`](Self::connect_timeout), on PostgreSQL
    /// and Memcached twice that time, and on MySQL that time for each server of the URL and once more. With the default
    /// `connect_timeout`, this is 6 s on PostgreSQL, Memcached and one server of MySQL. It fails at once if a retry
    /// cannot help: a wrong password, another kind of server.
    ///
    /// # Errors
    /// The errors of [`LockManager::connect`].
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// use distlock::LockManager;
    ///
    /// let manager = LockManager::builder()
    ///     .url("memory:") // or "redis://127.0.0.1/"
    ///     .default_wait(Duration::from_secs(3))
    ///     .connect()
    ///     .await?;
    /// manager.lock("order:42").run(async |_held| { /* the work */ }).await?;
    /// # Ok(()) }
    /// ```
    pub fn connect(self) -> impl Future<Output = Result<LockManager, LockError>> + Send {
        Box::pin(self.connect_now())
    }

    async fn connect_now(self) -> Result<LockManager, LockError> {
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
                Err(unavailable(StoreError::new(Failure::Unknown, text), Some(within)))
            }
        }
    }

    /// Connects on first use.
    ///
    /// # Errors
    /// The errors of [`LockManager::connect_lazy`].
    ///
    /// ```
    /// use distlock::LockManager;
    ///
    /// # fn main() -> Result<(), distlock::LockError> {
    /// // The server may start later than this program.
    /// let manager = LockManager::builder().url("redis://127.0.0.1/").connect_lazy()?;
    /// assert!(!manager.health().is_ready());
    /// # Ok(()) }
    /// ```
    pub fn connect_lazy(self) -> Result<LockManager, LockError> {
        Ok(self.build(ConnectOn::FirstUse)?.manager)
    }

    pub(super) fn build(self, connect: ConnectOn) -> Result<Built, LockError> {
        let (lingers, breaks) = (self.defaults.linger.is_some(), self.defaults.break_deadlocks);
        let fenced = self
            .requires_fencing_tokens
            .then_some(Demand { fenced: true, ..Demand::plain(LockKind::Exclusive, self.defaults.ttl) });
        let built = self.open(connect)?;
        let backend = &built.manager.core().backend;
        if lingers {
            backend.keeps_between_sections()?;
        }
        if breaks && !backend.publishes() {
            return Err(LockError::options(format!(
                "`break_deadlocks`: {} keeps no texts next to its locks, so processes do not see for what the others wait",
                backend.describe()
            )));
        }
        if let Some(demand) = fenced {
            backend.check(&demand)?;
        }
        Ok(built)
    }

    fn open(self, connect: ConnectOn) -> Result<Built, LockError> {
        self.check()?;
        let client = client_id(self.client_name.as_deref());
        let url = match (&self.url, self.quorum.is_empty(), &self.store) {
            (Some(url), true, None) => url.clone(),
            (None, false, None) => return schemes::open_quorum(self, &client, connect),
            (None, true, Some(store)) => return schemes::open_store(store.clone(), self, &client, connect),
            (None, true, None) => {
                return Err(LockError::options("no URL: call `url(\"redis://…\")` on the builder"));
            }
            (_, _, Some(_)) => {
                return Err(LockError::options(
                    "a `store` and servers (`url`, `quorum`): locks are kept in one place",
                ));
            }
            (Some(_), false, None) => {
                return Err(LockError::options("both `url` and `quorum`: name the servers in one of them"));
            }
        };
        schemes::open(self, url, &client, connect)
    }

    fn check(&self) -> Result<(), LockError> {
        valid_ttl(self.defaults.ttl)?;
        if self.defaults.unavailable_after.is_zero() {
            return Err(LockError::options("`unavailable_after` is zero: no server could answer in time"));
        }
        if self.defaults.max_waiters == Some(0) {
            return Err(LockError::options(NO_WAITERS));
        }
        if let Some(linger) = self.defaults.linger {
            valid_linger(linger)?;
        }
        if self.gap > Duration::from_millis(50) {
            return Err(LockError::options("a `fairness_gap` above 50 ms would leave the lock unused"));
        }
        if self.prefix.len() > 256 {
            return Err(LockError::options("the key prefix is longer than 256 bytes"));
        }
        // The first pair of braces decides the cluster slot. So both braces must be in the prefix, or both in the key.
        if let Some((_, after)) = self.prefix.split_once('{')
            && after.find('}').is_none_or(|end| end == 0)
        {
            return Err(LockError::options("the key prefix has a `{` that no text and `}` follow"));
        }
        if let Some(name) = &self.client_name {
            let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            if name.is_empty() || name.len() > LONGEST_CLIENT_NAME || !name.chars().all(fits) {
                return Err(LockError::options(
                    "the client name must be 1 to 64 letters, digits, `.`, `_` or `-`",
                ));
            }
        }
        Ok(())
    }
}

/// For jitter, and for the hashes of keys, which no client may foresee.
pub(super) fn seed() -> u64 {
    u64::from_ne_bytes(random())
}

fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut random = [0; BYTES];
    if getrandom::fill(&mut random).is_err() {
        // Without a source of randomness, the time and the process id make the name unique enough.
        fastrand::fill(&mut random);
    }
    random
}

/// The part of the tokens that identifies this process: the chosen name, and a unique part.
pub(super) fn client_id(name: Option<&str>) -> Arc<str> {
    let random = random::<12>().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match name {
        Some(name) => format!("{name}.{random}").into(),
        None => random.into(),
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
