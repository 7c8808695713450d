//! Connections to members, each to one of them: which one has the session is for us to say. The client would stay with
//! a member that answers its pings, and such a member may be cut off from the others.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use zookeeper_client::{Client, Connector, Error, SessionInfo};

use super::config::Config;
use crate::store::StoreError;

/// So long the system may take to say why a member cannot be reached.
const EXPLANATION: Duration = Duration::from_millis(500);

/// The connection to the member that has the session. The session outlives it.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: Client,
    member: usize,
    /// Lives as long as commands go over this connection.
    in_use: watch::Sender<()>,
}

/// A session without a connection.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) session: SessionInfo,
    /// Which member has had it.
    pub(super) member: usize,
}

/// Ready when its connection is not used any more.
#[derive(Clone, Debug)]
pub(super) struct Abandoned(watch::Receiver<()>);

impl Line {
    /// A session of its own, at any member.
    pub(super) async fn first(config: &Config) -> Result<Line, StoreError> {
        let mut failed = Error::NoHosts;
        let count = config.members.len();
        for member in after(fastrand::usize(0..count), count) {
            match connector(config).await?.with_detached().connect(&config.members[member]).await {
                Ok(client) => return Ok(Line::to(client, member)),
                Err(error) => failed = error,
            }
        }
        Err(config.place().unreachable(&failed, explain(&config.members).await))
    }

    /// The same session at this member.
    pub(super) async fn again(config: &Config, left: &Left, member: usize) -> Result<Line, Error> {
        // Without credentials for now it cannot be connected, as without a network.
        let connector = connector(config).await.map_err(|_| Error::ConnectionLoss)?;
        let connector = connector.with_session(left.session.clone()).with_detached();
        let client = connector.connect(&config.members[member]).await?;
        Ok(Line::to(client, member))
    }

    /// Leaves the member. What is still asked over this connection is not answered.
    pub(super) fn leave(self) -> Left {
        Left { session: self.client.into_session(), member: self.member }
    }

    fn to(client: Client, member: usize) -> Line {
        Line { client, member, in_use: watch::Sender::new(()) }
    }

    pub(super) fn abandoned(&self) -> Abandoned {
        Abandoned(self.in_use.subscribe())
    }
}

impl Abandoned {
    /// Waits until nobody is to wait for an answer over this connection.
    pub(super) async fn wait(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// Ends a session, at any member that takes it. If that fails, the session ends by itself.
pub(super) async fn end(config: &Config, session: SessionInfo) {
    let Ok(connector) = connector(config).await else { return };
    let Ok(client) = connector.with_session(session).connect(&config.members.join(",")).await else { return };
    let mut states = client.state_watcher();
    // It ends its session when nobody has it any more, since it was not detached from it.
    drop(client);
    while !states.state().is_terminated() {
        states.changed().await;
    }
}

/// All members, from the next one to this one.
pub(super) fn after(member: usize, count: usize) -> impl Iterator<Item = usize> {
    (1..=count).map(move |step| (member + step) % count)
}

async fn connector(config: &Config) -> Result<Connector, StoreError> {
    let connector = Client::connector()
        .with_session_timeout(config.session_timeout)
        .with_connection_timeout(config.silence())
        // Who calls tries again.
        .with_fail_eagerly();
    let login = config.login.ask("ZooKeeper").await.map_err(StoreError::later)?;
    Ok(match login {
        Some((user, password)) => connector.with_auth("digest", format!("{user}:{password}").as_bytes()),
        None => connector,
    })
}

/// Why no member can be reached, in the words of the system; the client does not pass them on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_that_was_left_comes_last() {
        assert_eq!(after(1, 3).collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(after(0, 1).collect::<Vec<_>>(), [0]);
    }
}
