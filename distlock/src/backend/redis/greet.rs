//! What is learned about the server when a link comes up, before anything depends on it.

use redis::{Pipeline, Value};

use super::super::{Failure, OpError};
use super::errors;
use super::link::Link;
use super::replicas;
use super::scripts::SCRIPTS;

/// What the server told about itself. Whatever it did not want to tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Server {
    /// Changes with every start of the server.
    pub(super) run_id: Option<String>,
    /// Major version.
    pub(super) major: Option<u32>,
    /// How this connection is called, for CLIENT KILL.
    pub(super) identity: Option<Identity>,
    /// What the other nodes of a cluster call it.
    pub(super) node_id: Option<String>,
    /// The eviction policy, if it may drop lock keys.
    pub(super) evicts: Option<String>,
}

/// What a server must be to keep our locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A master by itself.
    Master,
    /// The same, one of several that must not depend on each other.
    Member,
    /// A node of a cluster. A replica too: it says itself who serves what.
    ClusterNode,
}

/// A connection as the server knows it. Both parts are needed: ids start anew with the server, addresses are
/// used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) address: String,
}

/// Introduces us as `client`, loads the scripts, and asks who is there, in one round trip.
/// With `confirms` it must know WAIT, too.
pub(super) async fn greet(link: &Link, client: &str, role: Role, confirms: bool) -> Result<Server, OpError> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("CLIENT").arg("SETNAME").arg(client);
    pipeline.cmd("CLIENT").arg("INFO");
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("replication");
    pipeline.cmd("INFO").arg("memory");
    // Where INFO is forbidden this may be allowed.
    match role {
        Role::Master | Role::Member => pipeline.cmd("ROLE"),
        Role::ClusterNode => pipeline.cmd("CLUSTER").arg("MYID"),
    };
    if confirms {
        // For no replica at all, which is answered at once.
        pipeline.cmd("WAIT").arg(0).arg(1);
    }
    for script in SCRIPTS.all() {
        // So that NOSCRIPT is rare: a command sent again loses its place in the order.
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.code);
    }
    let replies = link.request_all(&pipeline).await.map_err(errors::unanswered)?;
    for reply in &replies {
        if let Value::ServerError(error) = reply {
            // Everything here may be forbidden or unknown; but these say that nothing will work.
            if matches!(error.code(), "NOAUTH" | "WRONGPASS" | "LOADING" | "MASTERDOWN" | "BUSY") {
                return Err(errors::replied(error.clone()));
            }
        }
    }
    if let (true, Some(Value::ServerError(error))) = (confirms, replies.get(6)) {
        return Err(replicas::unknowable(error));
    }
    let mut texts = replies.iter().skip(1).map(text);
    let [identity, server, replication, memory] = std::array::from_fn(|_| texts.next().flatten());
    // Called otherwise by Valkey from 9.0.
    let mode = field(server, "redis_mode").or(field(server, "server_mode"));
    let clustered = mode == Some("cluster");
    if clustered && role == Role::Master {
        return Err(errors::found(
            Failure::Refused,
            "the server runs in cluster mode: connect with `redis+cluster://`",
        ));
    }
    if clustered && role == Role::Member {
        return Err(errors::found(
            Failure::Refused,
            "the server runs in cluster mode: a quorum needs independent servers; for a cluster connect with \
             `redis+cluster://`",
        ));
    }
    let replica = field(replication, "role") == Some("slave") || replies.get(5).is_some_and(is_replica);
    if replica && role == Role::Master {
        return Err(errors::found(
            Failure::Later,
            "the server is a read-only replica: locks need its master (correct the URL, or wait for the fail-over)",
        ));
    }
    if replica && role == Role::Member {
        return Err(errors::found(
            Failure::Refused,
            "the server is a replica: a quorum needs masters that do not depend on each other",
        ));
    }
    let evicts = field(memory, "maxmemory_policy")
        .filter(|policy| *policy != "noeviction" && field(memory, "maxmemory") != Some("0"));
    if let (Some(policy), Role::Member) = (evicts, role) {
        return Err(errors::found(
            Failure::Refused,
            format!(
                "maxmemory-policy `{policy}` may evict locks while they are held, which makes a server of a quorum \
                 forget them unnoticed: set `noeviction`, or give locks servers of their own"
            ),
        ));
    }
    Ok(Server {
        run_id: field(server, "run_id").map(str::to_owned),
        major: field(server, "redis_version").and_then(|version| version.split('.').next()?.parse().ok()),
        identity: identity.and_then(identify),
        node_id: replies
            .get(5)
            .filter(|_| role == Role::ClusterNode)
            .and_then(text)
            .and_then(|id| id.get(..12))
            .map(str::to_owned),
        evicts: evicts.map(str::to_owned),
    })
}

/// The reply to ROLE begins with it.
fn is_replica(role: &Value) -> bool {
    matches!(role, Value::Array(parts) if parts.first().and_then(text) == Some("slave"))
}

/// `CLIENT INFO` is one line of `name=value`.
fn identify(line: &str) -> Option<Identity> {
    let of = |name: &str| {
        line.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    Some(Identity { id: of("id")?, address: of("addr")? })
}

/// `INFO` is lines of `name:value`.
pub(super) fn field<'a>(info: Option<&'a str>, name: &str) -> Option<&'a str> {
    info?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_and_fields_are_read_from_what_the_server_prints() {
        let line = "id=13 addr=127.0.0.1:60206 laddr=127.0.0.1:6379 fd=8 name= age=0\n";
        let identity = identify(line).unwrap();
        assert_eq!((identity.id.as_str(), identity.address.as_str()), ("13", "127.0.0.1:60206"));
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n";
        assert_eq!(field(Some(info), "run_id"), Some("abc"));
        assert_eq!(field(Some(info), "run"), None);
    }
}
