//! The questions to the server when a link is made, before the link is used.

use std::time::{Duration, Instant};

use redis::{Pipeline, RedisError, ServerError, Value};

use super::command::{PushCommand, Wire};
use super::config::Address;
use super::errors;
use super::info::{error, field, text};
use super::link::Link;
use super::replicas;
use super::scripts::SCRIPTS;
use crate::backend::{Failure, StoreError};

/// How long a refused question is remembered.
const REFUSAL_MEMORY: Duration = Duration::from_secs(3600);

/// The server's report about itself. Missing parts are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerInfo {
    /// Changes with every start of the server.
    pub(super) run_id: Option<String>,
    /// Major version.
    pub(super) major: Option<u32>,
    /// How the server identifies this connection, for CLIENT KILL.
    pub(super) identity: Option<Identity>,
    /// Its name among the nodes of a cluster.
    pub(super) node_id: Option<String>,
    /// SPUBLISH on a node of a cluster that knows and permits it.
    pub(super) push_command: PushCommand,
    /// The eviction policy, if it may drop lock keys.
    pub(super) evicts: Option<String>,
    /// It is known to be a single server, not a proxy that may spread keys over several.
    pub(super) is_whole: bool,
}

/// The required role of a server for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A single master.
    Master,
    /// A single master that is one of the independent servers of a quorum.
    Member,
    /// A node of a cluster, which may be a replica. The nodes report the slots that each of them serves.
    ClusterNode,
}

/// A connection as the server knows it. Both parts are needed: ids start again with the server, and addresses
/// are reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: String,
    pub(super) address: String,
}

/// How the handshake with a server is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// With all questions.
    Full,
    /// With scripts only, for proxies that close the connection on commands that they do not know.
    Plain,
}

/// The subject of one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStep {
    Name,
    Identity,
    Server,
    Replication,
    Memory,
    Role,
    NodeId,
    SlotPush,
    Wait,
    Load,
    /// A script with the keys of one lock.
    Keys,
}

/// The questions that a server has refused. They are not repeated on every link, because each refusal adds a line to
/// the server's log of forbidden commands.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    of: Option<(Address, Instant)>,
    steps: Vec<HandshakeStep>,
}

impl Refusals {
    /// Forgets refusals that are old or came from another server.
    pub(super) fn begin(&mut self, address: &Address) {
        let same = |(of, since): &(Address, Instant)| of == address && since.elapsed() < REFUSAL_MEMORY;
        if !self.of.as_ref().is_some_and(same) {
            self.of = Some((address.clone(), Instant::now()));
            self.steps.clear();
        }
    }

    fn learn(&mut self, answers: &HandshakeReplies) {
        for (step, answer) in &answers.0 {
            // WAIT is tried again, because without it there is no link.
            let refused = matches!(answer, Value::ServerError(error) if error.code() == "NOPERM");
            if refused && *step != HandshakeStep::Wait && !self.steps.contains(step) {
                self.steps.push(*step);
            }
        }
    }
}

/// The questions of one round trip.
struct Questions<'a> {
    pipeline: Pipeline,
    steps: Vec<HandshakeStep>,
    refused: &'a [HandshakeStep],
}

impl Questions<'_> {
    fn ask(&mut self, step: HandshakeStep, words: &[&str]) {
        if !self.refused.contains(&step) {
            self.pipeline.cmd(words.first().copied().unwrap_or_default()).arg(words.get(1..));
            self.steps.push(step);
        }
    }
}

/// The replies.
struct HandshakeReplies(Vec<(HandshakeStep, Value)>);

impl HandshakeReplies {
    fn all_to(&self, step: HandshakeStep) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |(of, _)| *of == step).map(|(_, answer)| answer)
    }

    fn to(&self, step: HandshakeStep) -> Option<&Value> {
        self.all_to(step).next()
    }

    fn text(&self, step: HandshakeStep) -> Option<&str> {
        self.to(step).and_then(text)
    }

    fn error(&self, step: HandshakeStep) -> Option<&ServerError> {
        self.to(step).and_then(error)
    }

    fn errors(&self) -> impl Iterator<Item = &ServerError> {
        self.0.iter().filter_map(|(_, answer)| error(answer))
    }
}

/// Why nothing is known about the server.
pub(super) enum Unknown {
    /// The connection ended during the questions.
    Closed(RedisError),
    Unfit(StoreError),
}

impl From<StoreError> for Unknown {
    fn from(error: StoreError) -> Unknown {
        Unknown::Unfit(error)
    }
}

/// Sets the name of the client, loads the scripts, and asks about the server, in one round trip. If `replicas` must
/// confirm, the server must also know WAIT.
pub(super) async fn handshake(
    link: &Link,
    wire: &Wire,
    (role, manner): (Role, Manner),
    replicas: u32,
    refusals: &mut Refusals,
) -> Result<ServerInfo, Unknown> {
    let mut questions = Questions { pipeline: Pipeline::new(), steps: Vec::new(), refused: &refusals.steps };
    if manner == Manner::Full {
        ask_all(&mut questions, wire, role);
    }
    if replicas > 0 {
        // A WAIT for zero replicas returns at once.
        questions.ask(HandshakeStep::Wait, &["WAIT", "0", "1"]);
    }
    if role != Role::ClusterNode && !questions.refused.contains(&HandshakeStep::Keys) {
        questions.pipeline.add_command(wire.probe());
        questions.steps.push(HandshakeStep::Keys);
    }
    let Questions { pipeline, steps, .. } = questions;
    let replies = link.request_all(&pipeline).await.map_err(Unknown::Closed)?;
    let answers = HandshakeReplies(steps.into_iter().zip(replies).collect());
    refusals.learn(&answers);
    check_readiness(&answers)?;
    check_role(&answers, role)?;
    check_keys(&answers)?;
    Ok(ServerInfo {
        // A peer that refuses for lack of permission is a server, not a proxy.
        is_whole: answers.text(HandshakeStep::Server).is_some()
            || refusals.steps.contains(&HandshakeStep::Server),
        ..read(&answers, role)
    })
}

fn ask_all(questions: &mut Questions<'_>, wire: &Wire, role: Role) {
    questions.ask(HandshakeStep::Name, &["CLIENT", "SETNAME", &wire.client]);
    questions.ask(HandshakeStep::Identity, &["CLIENT", "INFO"]);
    questions.ask(HandshakeStep::Server, &["INFO", "server"]);
    questions.ask(HandshakeStep::Replication, &["INFO", "replication"]);
    questions.ask(HandshakeStep::Memory, &["INFO", "memory"]);
    match role {
        // This may be allowed where INFO is forbidden.
        Role::Master | Role::Member => questions.ask(HandshakeStep::Role, &["ROLE"]),
        Role::ClusterNode => {
            questions.ask(HandshakeStep::NodeId, &["CLUSTER", "MYID"]);
            // To a channel that no client subscribes to.
            questions.ask(HandshakeStep::SlotPush, &["SPUBLISH", &wire.channel(), ""]);
        }
    }
    for script in SCRIPTS.all() {
        // Makes NOSCRIPT rare, because a command that is sent a second time loses its place in the order.
        questions.ask(HandshakeStep::Load, &["SCRIPT", "LOAD", script.code]);
    }
}

/// A server may forbid or not know any of the questions, but some replies show that nothing will work.
fn check_readiness(answers: &HandshakeReplies) -> Result<(), StoreError> {
    let hopeless = ["NOAUTH", "WRONGPASS", "LOADING", "MASTERDOWN", "BUSY"];
    if let Some(error) = answers.errors().find(|error| hopeless.contains(&error.code())) {
        return Err(errors::replied(error.clone()));
    }
    answers.error(HandshakeStep::Wait).map_or(Ok(()), |error| Err(replicas::unknowable(error)))
}

/// Fails if a script could not release a lock that a plain command has acquired.
fn check_keys(answers: &HandshakeReplies) -> Result<(), StoreError> {
    let Some(error) = answers.error(HandshakeStep::Keys) else { return Ok(()) };
    let loaded = answers.all_to(HandshakeStep::Load).any(|answer| !matches!(answer, Value::ServerError(_)));
    let cannot_run = errors::is_unknown_command(error) && !loaded;
    if cannot_run || matches!(error.code(), "CROSSSLOT" | "MOVED" | "ASK") {
        return Err(errors::replied(error.clone()));
    }
    Ok(())
}

fn check_role(answers: &HandshakeReplies, role: Role) -> Result<(), StoreError> {
    let unfit = |kind, text| Err(errors::found(kind, text));
    let server = answers.text(HandshakeStep::Server);
    // Valkey from 9.0 uses another name.
    let mode = field(server, "redis_mode").or(field(server, "server_mode"));
    let replica = field(answers.text(HandshakeStep::Replication), "role") == Some("slave")
        || answers.to(HandshakeStep::Role).is_some_and(is_replica);
    match role {
        Role::Master if mode == Some("cluster") => {
            unfit(Failure::Refused, "the server runs in cluster mode: connect with `redis+cluster://`")
        }
        Role::Member if mode == Some("cluster") => unfit(
            Failure::Refused,
            "the server runs in cluster mode: a quorum needs independent servers; for a cluster connect with \
             `redis+cluster://`",
        ),
        Role::Master if replica => unfit(
            Failure::Later,
            "the server is a read-only replica: locks need its master (correct the URL, or wait for the fail-over)",
        ),
        Role::Member if replica => unfit(
            Failure::Refused,
            "the server is a replica: a quorum needs masters that do not depend on each other",
        ),
        Role::Member => check_memory(answers),
        Role::Master | Role::ClusterNode => Ok(()),
    }
}

/// If a member of a quorum evicts a lock unnoticed, another process could acquire it.
fn check_memory(answers: &HandshakeReplies) -> Result<(), StoreError> {
    let Some(policy) = evicts(answers) else { return Ok(()) };
    let text = format!(
        "maxmemory-policy `{policy}` may evict locks while they are held, which makes a server of a quorum forget \
         them unnoticed: set `noeviction`, or give locks servers of their own"
    );
    Err(errors::found(Failure::Refused, text))
}

/// The policy by which the server evicts keys, if it does.
fn evicts(answers: &HandshakeReplies) -> Option<&str> {
    let memory = answers.text(HandshakeStep::Memory);
    field(memory, "maxmemory_policy")
        .filter(|policy| *policy != "noeviction" && field(memory, "maxmemory") != Some("0"))
}

fn read(answers: &HandshakeReplies, role: Role) -> ServerInfo {
    let server = answers.text(HandshakeStep::Server);
    ServerInfo {
        major: field(server, "redis_version").and_then(|version| version.split('.').next()?.parse().ok()),
        identity: answers.text(HandshakeStep::Identity).and_then(identify),
        node_id: answers
            .text(HandshakeStep::NodeId)
            .filter(|_| role == Role::ClusterNode)
            .and_then(|id| id.get(..12))
            .map(str::to_owned),
        push_command: answers.to(HandshakeStep::SlotPush).map(push_command).unwrap_or_default(),
        evicts: evicts(answers).map(str::to_owned),
        run_id: field(server, "run_id").map(str::to_owned),
        is_whole: false,
    }
}

/// A node that knows SPUBLISH may not serve the slot of that channel, or none for the moment.
fn push_command(answer: &Value) -> PushCommand {
    let knows_it = |error: &ServerError| matches!(error.code(), "MOVED" | "ASK" | "CLUSTERDOWN" | "TRYAGAIN");
    if error(answer).is_none_or(knows_it) { PushCommand::Spublish } else { PushCommand::Publish }
}

/// The reply to ROLE begins with the role.
fn is_replica(role: &Value) -> bool {
    matches!(role, Value::Array(parts) if parts.first().and_then(text) == Some("slave"))
}

/// `CLIENT INFO` is one line of `name=value`.
pub(super) fn identify(line: &str) -> Option<Identity> {
    let of = |name: &str| {
        line.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    Some(Identity { id: of("id")?, address: of("addr")? })
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

    #[test]
    fn a_node_pushes_by_slot_if_it_knows_the_command_and_permits_it() {
        use PushCommand::{Publish, Spublish};
        for (reply, expected) in [
            (":0", Spublish),
            ("-MOVED 7 10.0.0.1:7000", Spublish),
            ("-CLUSTERDOWN Hash slot not served", Spublish),
            ("-ERR unknown command 'SPUBLISH', with args beginning with: 'dl1:c:a' '' ", Publish),
            ("-NOPERM this user has no permissions to run the 'spublish' command", Publish),
        ] {
            let answer = redis::parse_redis_value(format!("{reply}\r\n").as_bytes()).unwrap();
            assert_eq!(push_command(&answer), expected, "{reply}");
        }
    }
}
