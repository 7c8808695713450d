//! The session of a process with ZooKeeper, which all of its places depend on, and its heartbeats.
//!
//! A member answers a session's pings out of its own memory, also while it is cut off from the leader, and it is
//! the leader who ends sessions. So a heartbeat is a `sync` and a write to the node of the session: the leader
//! answers both, the second one with a majority. What it proves is that the leader has heard of the session since
//! the heartbeat *before* it was begun. For a member tells the leader whom it has heard of when the leader asks,
//! which is every half tick, and a quarter of the time-out is as long, since that is two ticks at least. What it
//! tells, the `sync` and the write take the same way, one after the other. A member that takes over a session
//! after a lost connection asks the leader first, and a new leader begins to count all sessions anew.
//!
//! Therefore each heartbeat counts from the moment at which it was begun, but not before the next one is answered.

use std::mem::replace;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zookeeper_client::{Client, CreateMode, CreateOptions, Error, SessionState};

use super::config::Config;
use super::errors::Place;
use super::members::{self, Left, Line};
use crate::store::{Heartbeat, StoreError, StoreEvents};

/// Between attempts to go on with a session at one of the members.
const PAUSE: Duration = Duration::from_millis(20);

/// A session, and the connection to the member that has it now.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) line: Line,
    pub(super) life: Life,
}

/// What is known of a session, wherever it is.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) id: i64,
    /// As long as the ensemble has granted.
    timeout: Duration,
    /// The path of its node.
    pub(super) node: String,
    place: Place,
    /// The last heartbeat that was answered: the next one proves it.
    unproven: Heartbeat,
    begun: Instant,
    /// When it is over unless another heartbeat is answered.
    until: Instant,
}

/// What has ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Another member is to have the session.
    Connection(StoreError),
    Session(StoreError),
}

impl Session {
    /// Begins a session with one of the members.
    pub(super) async fn begin(config: &Config, events: &StoreEvents) -> Result<Session, StoreError> {
        let (first, begun) = (events.heartbeat(), Instant::now());
        let line = Line::first(config).await?;
        let (id, timeout) = (line.client.session_id().0, line.client.session_timeout());
        let (unproven, second) = (events.heartbeat(), Instant::now());
        let node = config.names.session(events.client(), id);
        let options = CreateMode::Ephemeral.with_acls(config.acls());
        let made = create_below(config, &line.client, &node, &config.names.sessions(), &options).await;
        if let Err(error) = made {
            members::end(config, line.leave().session).await;
            return Err(error);
        }
        first.answered(timeout);
        let (place, until) = (config.place(), begun + timeout);
        Ok(Session { line, life: Life { id, timeout, node, place, unproven, begun: second, until } })
    }

    /// Keeps it alive until its connection or itself ends.
    ///
    /// A member that is cut off from the others answers pings, and no heartbeats: it is left in time for another one
    /// to have a heartbeat confirmed before the session is over.
    pub(super) async fn keep_alive(&mut self, config: &Config, events: &StoreEvents) -> Ended {
        let Session { line, life } = self;
        let mut states = line.client.state_watcher();
        let interval = life.timeout / 4;
        loop {
            let until = life.until;
            let patience = match config.members.len() {
                1 => until,
                _ => until.min(Instant::now() + interval + life.timeout / 6),
            };
            let one = async {
                // From the last answer on: in between the leader asks the member whom it has heard of.
                tokio::time::sleep(interval).await;
                life.beat(line, events).await
            };
            tokio::select! {
                // In this order: a heartbeat is not begun over a connection that we do not know of.
                biased;
                state = states.changed() => return life.of_state(state),
                beaten = one => match beaten {
                    Ok(()) => {}
                    Err(ended) => return ended,
                },
                () = tokio::time::sleep_until(patience.into()) => {
                    let silent = life.silent();
                    return if patience < until { Ended::Connection(silent) } else { Ended::Session(silent) };
                }
            }
        }
    }

    /// Goes on at another member, or at the same if no other one takes it. What was asked of the former is not awaited
    /// any more: it is carried out before the first answer of the next member, or never.
    ///
    /// # Errors
    ///
    /// Why the session has ended instead.
    pub(super) async fn move_on(self, config: &Config, events: &StoreEvents) -> Result<Session, StoreError> {
        let Session { line, mut life } = self;
        let (until, silent) = (life.until, life.silent());
        // Before: it would go on looking for its member, and take the session back there.
        let left = line.leave();
        let moved = async {
            // In time for the next one where a member does not answer; then for members that are slow.
            let mut patience = life.timeout / 6;
            loop {
                for member in members::after(left.member, config.members.len()) {
                    match timeout(patience, life.attach(config, &left, member, events)).await {
                        Ok(Ok(line)) => return Ok(line),
                        Ok(Err(Ended::Session(error))) => return Err(error),
                        Ok(Err(Ended::Connection(_))) | Err(_) => {}
                    }
                }
                tokio::time::sleep(PAUSE).await;
                patience = life.timeout / 3;
            }
        };
        let line = tokio::time::timeout_at(until.into(), moved).await.unwrap_or(Err(silent))?;
        Ok(Session { line, life })
    }
}

impl Life {
    /// A connection to one member, which has confirmed a heartbeat.
    async fn attach(
        &mut self,
        config: &Config,
        left: &Left,
        member: usize,
        events: &StoreEvents,
    ) -> Result<Line, Ended> {
        let line = match Line::again(config, left, member).await {
            Ok(line) => line,
            Err(error) => return Err(self.of_error(&error)),
        };
        self.beat(&line, events).await?;
        Ok(line)
    }

    /// One heartbeat.
    async fn beat(&mut self, line: &Line, events: &StoreEvents) -> Result<(), Ended> {
        // Before it is sent: it counts from here.
        let (heartbeat, begun) = (events.heartbeat(), Instant::now());
        let answer = async {
            line.client.sync(&self.node).await?;
            line.client.set_data(&self.node, b"", None).await
        };
        match answer.await {
            Ok(_) => {
                replace(&mut self.unproven, heartbeat).answered(self.timeout);
                self.until = replace(&mut self.begun, begun) + self.timeout;
                Ok(())
            }
            Err(error) => Err(self.of_error(&error)),
        }
    }

    fn of_error(&self, error: &Error) -> Ended {
        match error {
            Error::NoNode => {
                Ended::Session(self.place.odd("the node of the session was deleted by somebody else"))
            }
            Error::SessionExpired | Error::ClientClosed | Error::AuthFailed | Error::NoAuth => {
                Ended::Session(self.place.error(&self.node, error))
            }
            _ => Ended::Connection(self.place.error(&self.node, error)),
        }
    }

    fn of_state(&self, state: SessionState) -> Ended {
        self.of_error(&match state {
            SessionState::Expired => Error::SessionExpired,
            SessionState::AuthFailed => Error::AuthFailed,
            SessionState::Closed => Error::ClientClosed,
            SessionState::Disconnected | SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                Error::ConnectionLoss
            }
        })
    }

    fn silent(&self) -> StoreError {
        let (timeout, since) = (self.timeout, self.begun.elapsed());
        self.place
            .odd(&format!("no heartbeat was confirmed for {since:.1?}; the session lasts for {timeout:?}"))
    }
}

/// Creates a node, and those above it if they are not there.
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
