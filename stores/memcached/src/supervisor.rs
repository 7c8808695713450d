//! Creates the connection, watches it, and replaces it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::MemcachedStore;
use super::link::{Connection, Driver};
use super::meta::Response;
use distlock_store::clock;
use distlock_store::kit::backoff::Backoff;
use distlock_store::{EarlierCommands, StoreError, StoreEvents};

/// The pause between the first two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// How often a connection is checked. A check finds a dead connection, and proves that the server's clock runs: an item
/// is written for a longer time, plus the time since the last proof (see `server_clock`).
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// A connection that lasted this long counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// The first version with these meta commands.
const OLDEST: (u32, u32, u32) = (1, 6, 12);

impl MemcachedStore {
    /// Connects, and reconnects whenever the connection has ended. Never returns.
    pub(super) async fn stay_connected(&self, events: &StoreEvents) {
        let mut backoff = Backoff::beginning_with(FIRST_PAUSE);
        let mut earlier = EarlierCommands::Ended;
        loop {
            let cause = match self.dial().await {
                Ok((connection, driver)) => {
                    let since = Instant::now();
                    let ready = || {
                        self.link.set(Some(connection.clone()));
                        events.up(std::mem::replace(&mut earlier, EarlierCommands::MayArrive));
                    };
                    let cause = tokio::select! {
                        cause = driver.run() => cause,
                        cause = self.look_after(&connection, ready) => cause,
                    };
                    self.link.set(None);
                    if since.elapsed() > STABLE_AFTER {
                        backoff = Backoff::beginning_with(FIRST_PAUSE);
                    }
                    cause
                }
                Err(error) => error,
            };
            events.down(cause);
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    async fn dial(&self) -> Result<(Arc<Connection>, Driver), StoreError> {
        let (host, limit, begun) = (&self.config.host, self.config.connect_timeout, clock::now());
        let connecting = TcpStream::connect((host.name.as_str(), host.port));
        let stream = match timeout(limit, connecting).await {
            Ok(stream) => stream.map_err(StoreError::not_sent)?,
            Err(_) => return Err(StoreError::not_sent(format!("no connection within {limit:?}"))),
        };
        stream.set_nodelay(true).map_err(StoreError::not_sent)?;
        Ok(Connection::over(stream, begun, self.config.response_timeout))
    }

    /// Checks that the server can be used, reports that it is ready, and then checks the connection regularly. Returns
    /// the error.
    async fn look_after(&self, connection: &Connection, ready: impl FnOnce()) -> StoreError {
        let limit = self.config.connect_timeout;
        match timeout(limit, self.greet(connection)).await {
            Ok(Ok(())) => ready(),
            Ok(Err(error)) => return error,
            Err(_) => {
                let text = format!("neither the server nor `credentials` has answered within {limit:?}");
                return StoreError::not_sent(text);
            }
        }
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            if let Err(error) = connection.ask_line("mn").await {
                return error;
            }
        }
    }

    /// Logs in, if the server requires it, and reads its version.
    async fn greet(&self, connection: &Connection) -> Result<(), StoreError> {
        let version = match connection.ask_line("version").await {
            Err(error) if error.to_string().contains("unauthenticated") => {
                // Sent only if the server asks for it: a server without passwords would store it as an item.
                let Some((user, password)) = self.config.login().await? else { return Err(error) };
                let login = format!("{user} {password}");
                let line = format!("set login 0 0 {}\r\n{login}", login.len());
                connection.ask_line(&line).await.map_err(|_| {
                    StoreError::refused(
                        "the server does not accept the user and the password: check them in the URL, and the file \
                         that the server was started with (`-Y`)",
                    )
                })?;
                connection.ask_line("version").await?
            }
            said => said?,
        };
        match version {
            Response::Line(said) => too_old(&said).map_or(Ok(()), |reason| Err(StoreError::refused(reason))),
            other => Err(StoreError::refused(format!("the server is not Memcached: it says {other:?}"))),
        }
    }
}

/// The error for a server of this version, if it is too old.
fn too_old(said: &str) -> Option<String> {
    let version = said.strip_prefix("VERSION ")?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    let found = (numbers.next()?, numbers.next()?, numbers.next().unwrap_or(0));
    let (major, minor, patch) = OLDEST;
    (found < OLDEST)
        .then(|| format!("Memcached {version} is too old: {major}.{minor}.{patch} or later is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_from_new_ones() {
        for said in
            ["VERSION 1.6.18", "VERSION 1.6.12_rc1", "VERSION 1.7", "VERSION 2.0.0", "VERSION special"]
        {
            assert_eq!(too_old(said), None, "{said}");
        }
        assert!(too_old("VERSION 1.5.22").is_some_and(|reason| reason.contains("1.5.22 is too old")));
    }
}
