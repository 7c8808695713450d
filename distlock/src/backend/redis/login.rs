//! The credentials: a fixed user and password, or a function that returns them when they are needed.
//!
//! Credentials that expire are renewed on open connections: AUTH takes effect after the commands that were
//! sent before it, and none of them is lost. A connection that cannot send AUTH (a subscription with RESP2)
//! is made again instead.

use std::fmt;
use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ProtocolVersion, RedisConnectionInfo, RedisResult, Value, cmd};
use tokio::time::{Instant, sleep, sleep_until};

use super::errors::CredentialsFrom;
use crate::observe::{Failures, Notice, notice};
use distlock_store::kit::backoff::Backoff;
use distlock_store::kit::connection::{Credentials, Provider};

/// The longest pause between two attempts to renew credentials.
const LONGEST_RENEWAL_PAUSE: Duration = Duration::from_secs(10);
/// Credentials are not renewed more often than this, however soon they expire.
const SHORTEST_RENEWAL_PAUSE: Duration = Duration::from_millis(250);

/// User, password and database. (Its `Debug` hides the password.)
#[derive(Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// Returns user and password instead of the fixed ones.
    pub(super) provider: Option<Provider>,
    pub(super) database: i64,
    pub(super) protocol: ProtocolVersion,
}

/// The credentials that are sent to a server, and when they should be replaced.
pub(super) struct Shown {
    pub(super) settings: RedisConnectionInfo,
    pub(super) renew_at: Option<Instant>,
}

/// An open connection that can send AUTH.
pub(super) trait Asks: Send + 'static {
    fn ask(&self, cmd: &Cmd) -> impl Future<Output = RedisResult<Value>> + Send;
}

impl Asks for MultiplexedConnection {
    async fn ask(&self, cmd: &Cmd) -> RedisResult<Value> {
        self.clone().send_packed_command(cmd).await
    }
}

impl Login {
    pub(super) fn with(user: Option<String>, password: Option<String>) -> Login {
        Login { user, password, ..Login::default() }
    }

    pub(super) fn speaking(&self, protocol: ProtocolVersion) -> Login {
        Login { protocol, ..self.clone() }
    }

    /// The source of the user and the password.
    pub(super) fn source(&self) -> CredentialsFrom {
        match self.provider {
            Some(_) => CredentialsFrom::Provider,
            None => CredentialsFrom::Url,
        }
    }

    /// The credentials to send now.
    pub(super) async fn shown(&self) -> io::Result<Shown> {
        let mut settings = RedisConnectionInfo::default()
            .set_skip_set_lib_name()
            .set_db(self.database)
            .set_protocol(self.protocol);
        let mut renew_at = None;
        let (user, password) = match &self.provider {
            Some(provider) => {
                let given = given_by(provider).await?;
                renew_at = renewal(&given);
                (given.user, Some(given.password))
            }
            None => (self.user.clone(), self.password.clone()),
        };
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }
        Ok(Shown { settings, renew_at })
    }

    /// Sends new credentials on `connection` whenever the old ones are about to expire, until it is dropped.
    pub(super) async fn keep(self, connection: impl Asks, mut renew_at: Option<Instant>) {
        while let Some(at) = renew_at {
            sleep_until(at).await;
            let mut backoff = Backoff::up_to(LONGEST_RENEWAL_PAUSE);
            let mut before = Failures::None;
            renew_at = loop {
                match self.renew(&connection).await {
                    Ok(next) => break next,
                    Err(error) => notice(Notice::CredentialsNotRenewed {
                        error: &error,
                        before: std::mem::replace(&mut before, Failures::Some),
                    }),
                }
                sleep(backoff.next_pause()).await;
            };
        }
    }

    async fn renew(&self, connection: &impl Asks) -> RedisResult<Option<Instant>> {
        let Some(provider) = &self.provider else { return Ok(None) };
        let given = given_by(provider).await?;
        let mut auth = cmd("AUTH");
        if let Some(user) = &given.user {
            auth.arg(user);
        }
        auth.arg(&given.password);
        connection.ask(&auth).await?.extract_error()?;
        Ok(renewal(&given))
    }
}

async fn given_by(provider: &Provider) -> io::Result<Credentials> {
    let given = provider.ask().await;
    given.map_err(|error| io::Error::other(format!("the function that gives credentials failed: {error}")))
}

/// After three quarters of their lifetime.
fn renewal(given: &Credentials) -> Option<Instant> {
    Instant::now().checked_add((given.valid_for? / 4 * 3).max(SHORTEST_RENEWAL_PAUSE))
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("database", &self.database).finish_non_exhaustive()
    }
}
