//! The session of a process with ZooKeeper, and its heartbeats. All places of the process depend on it.
//!
//! A member answers a session's pings from its own memory, even while it is cut off from the leader, but the leader
//! ends sessions. So a heartbeat is a `sync` and a write to the node of the session: the leader answers both, the
//! second one with a majority. A heartbeat proves that the leader has heard of the session since the *previous*
//! heartbeat began. The reason is that a member reports its active sessions when the leader asks, which is every half
//! tick, and a quarter of the time-out is as long, because the time-out is at least two ticks. This report, the `sync`
//! and the write take the same path, one after the other. A member that takes over a session after a lost connection
//! asks the leader first, and a new leader restarts the time of all sessions.
//!
//! Therefore each heartbeat counts from the moment when it began, but not before the next one is answered.

use std::mem::replace;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, CreateOptions, Error, SessionState, StateWatcher};

use super::config::Config;
use super::errors::Location;
use distlock_store::{Heartbeat, StoreError, StoreEvents};

/// How long the system may take to report why a member is unreachable.
const EXPLANATION: Duration = Duration::from_millis(500);

/// The pause between failed heartbeats on a new connection.
const PAUSE: Duration = Duration::from_millis(20);

/// A session, and the connection to the member that has it now.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) id: i64,
    /// The time-out that the ensemble has granted.
    timeout: Duration,
    /// The path of its node.
    node: String,
    place: Location,
    /// The last heartbeat that was answered. The reply to the next one proves it.
    unproven: Heartbeat,
    begun: Instant,
    /// The end of the session, unless another heartbeat is answered.
    pub(super) until: Instant,
}

/// Which of the two has ended.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// The connection. The client looks for another member, or tries this one again.
    Connection(StoreError),
    Session(StoreError),
}

impl Session {
    /// Begins a session with one of the members.
    pub(super) async fn begin(config: &Config, events: &StoreEvents) -> Result<Session, StoreError> {
        let (first, begun) = (events.heartbeat(), Instant::now());
        let client = connect(config).await?;
        let (id, timeout) = (client.session_id().0, client.session_timeout());
        let (unproven, second) = (events.heartbeat(), Instant::now());
        let node = config.names.session(events.client(), id);
        let options = CreateMode::Ephemeral.with_acls(config.acls());
        create_below(config, &client, &node, &config.names.sessions(), &options).await?;
        first.answered(timeout);
        let place = config.place();
        Ok(Session { client, id, timeout, node, place, unproven, begun: second, until: begun + timeout })
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Sends one heartbeat.
    async fn beat(&mut self, events: &StoreEvents) -> Result<(), SessionEnd> {
        // Taken before the heartbeat is sent, because its time is counted from here.
        let (heartbeat, begun) = (events.heartbeat(), Instant::now());
        let answer = async {
            self.client.sync(&self.node).await?;
            self.client.set_data(&self.node, b"", None).await
        };
        match answer.await {
            Ok(_) => {
                replace(&mut self.unproven, heartbeat).answered(self.timeout);
                self.until = replace(&mut self.begun, begun) + self.timeout;
                Ok(())
            }
            Err(Error::NoNode) => Err(SessionEnd::Session(
                self.place.odd("the node of the session was deleted by another client"),
            )),
            Err(
                error @ (Error::SessionExpired | Error::ClientClosed | Error::AuthFailed | Error::NoAuth),
            ) => Err(SessionEnd::Session(self.place.error(&self.node, &error))),
            Err(error) => Err(SessionEnd::Connection(self.place.error(&self.node, &error))),
        }
    }

    /// Keeps the session alive until its connection or the session ends.
    pub(super) async fn keep_alive(&mut self, states: &mut StateWatcher, events: &StoreEvents) -> SessionEnd {
        let interval = self.timeout / 4;
        loop {
            let until = self.until;
            let one = async {
                // Counted from the last reply. During this time, the leader asks the member for its active sessions.
                tokio::time::sleep(interval).await;
                self.beat(events).await
            };
            tokio::select! {
                // In this order, because no heartbeat may begin on a new connection that this task has not noticed.
                biased;
                state = states.changed() => return self.of_state(state),
                beaten = one => match beaten {
                    Ok(()) => {}
                    Err(ended) => return ended,
                },
                () = tokio::time::sleep_until(until.into()) => return SessionEnd::Session(self.silent()),
            }
        }
    }

    /// Waits until one of the members has the session again and has answered a heartbeat.
    ///
    /// # Errors
    ///
    /// The reason why the session has ended.
    pub(super) async fn reconnect(
        &mut self,
        states: &mut StateWatcher,
        events: &StoreEvents,
    ) -> Result<(), StoreError> {
        let until = self.until;
        let silent = self.silent();
        let reconnected = async {
            loop {
                match states.state() {
                    SessionState::Disconnected => {
                        states.changed().await;
                    }
                    SessionState::SyncConnected => {
                        tokio::select! {
                            biased;
                            _ = states.changed() => {}
                            beaten = self.beat(events) => match beaten {
                                Ok(()) => return Ok(()),
                                Err(SessionEnd::Session(error)) => return Err(error),
                                // The next state of the client decides.
                                Err(SessionEnd::Connection(_)) => tokio::time::sleep(PAUSE).await,
                            },
                        }
                    }
                    other => match self.of_state(other) {
                        SessionEnd::Session(error) | SessionEnd::Connection(error) => return Err(error),
                    },
                }
            }
        };
        let most = tokio::time::Instant::from(until);
        tokio::time::timeout_at(most, reconnected).await.unwrap_or(Err(silent))
    }

    fn of_state(&self, state: SessionState) -> SessionEnd {
        match state {
            SessionState::Expired => {
                SessionEnd::Session(self.place.error(&self.node, &Error::SessionExpired))
            }
            SessionState::AuthFailed => SessionEnd::Session(self.place.error(&self.node, &Error::AuthFailed)),
            SessionState::Closed => SessionEnd::Session(self.place.error(&self.node, &Error::ClientClosed)),
            SessionState::Disconnected | SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                SessionEnd::Connection(self.place.error(&self.node, &Error::ConnectionLoss))
            }
        }
    }

    fn silent(&self) -> StoreError {
        let timeout = self.timeout;
        self.place.odd(&format!("no heartbeat of the session was confirmed for {timeout:?}"))
    }
}

/// A client with a new session.
async fn connect(config: &Config) -> Result<Client, StoreError> {
    let mut connector = Client::connector()
        .with_session_timeout(config.session_timeout)
        .with_connection_timeout(config.silence())
        // Each member is tried once. The caller retries.
        .with_fail_eagerly();
    if let Some((user, password)) = config.login.ask("ZooKeeper").await.map_err(StoreError::later)? {
        connector = connector.with_auth("digest", format!("{user}:{password}").as_bytes());
    }
    match connector.connect(&config.members.join(",")).await {
        Ok(client) => Ok(client),
        Err(error) => Err(config.place().unreachable(&error, explain(&config.members).await)),
    }
}

/// The reason why no member is reachable, as reported by the system. The client does not pass it on.
async fn explain(members: &[String]) -> Option<String> {
    let mut words = None;
    for member in members {
        match timeout(EXPLANATION, TcpStream::connect(&**member)).await {
            Ok(Ok(_)) => return None,
            Ok(Err(error)) => words = Some(error.to_string()),
            Err(_) => words = Some("no answer".to_owned()),
        }
    }
    words
}

/// Creates a node, and its parents if they do not exist.
pub(super) async fn create_below(
    config: &Config,
    client: &Client,
    node: &str,
    parent: &str,
    options: &CreateOptions<'_>,
) -> Result<(), StoreError> {
    let refused = |error: Error| config.place().error(node, &error);
    match client.create(node, b"", options).await {
        Ok(_) | Err(Error::NodeExists) => return Ok(()),
        Err(Error::NoNode) => {}
        Err(error) => return Err(refused(error)),
    }
    let above = CreateMode::Persistent.with_acls(config.acls());
    client.mkdir(parent, &above).await.map_err(|error| config.place().error(parent, &error))?;
    match client.create(node, b"", options).await {
        Ok(_) | Err(Error::NodeExists) => Ok(()),
        Err(error) => Err(refused(error)),
    }
}
