//! `doctor` finds each fault, and names its remedy.

use std::process::Command;

use distlock_tests::{ClusterServers, QuorumServers, RedisServer, ShardServers};
use serde_json::Value;

use super::{assert_status, output, text};

fn doctor(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    command.args(["--url", url, "doctor"]).env_remove("DISTLOCK_PREFIX").env_remove("DISTLOCK_NAME");
    command
}

/// The output, by subject: (severity, text, remedy).
fn examined(url: &str, status: i32) -> Vec<(String, String, String)> {
    let examined = output(doctor(url).arg("--json"));
    assert_eq!(examined.status.code(), Some(status), "{}", text(&examined.stdout));
    let read = |line: &str| {
        let finding: Value = serde_json::from_str(line).unwrap();
        let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        (format!("{} {}", part("severity"), part("about")), part("text"), part("remedy"))
    };
    text(&examined.stdout).lines().map(read).collect()
}

#[track_caller]
fn assert_found(found: &[(String, String, String)], what: &str, remedy: &str) {
    let is_it = |(about, text, says): &(String, String, String)| {
        let severity = what.split(' ').next().unwrap_or_default();
        let words = what.strip_prefix(severity).unwrap_or_default().trim();
        about.starts_with(severity)
            && (about.contains(words) || text.contains(words))
            && says.contains(remedy)
    };
    assert!(found.iter().any(is_it), "no `{what}` with `{remedy}` in {found:#?}");
}

fn as_user(rules: &str) -> (RedisServer, String) {
    let server = RedisServer::options().user("worker", rules).start();
    let url = server.url_as("worker", "secret");
    (server, url)
}

#[test]
fn a_server_without_a_fault_is_said_to_be_so() {
    let server = RedisServer::start();
    let found = examined(&server.url(), 0);
    for subject in [
        "connection",
        "version",
        "eviction",
        "clock",
        "permissions",
        "locks",
        "fencing tokens",
        "shared locks",
        "max_holders",
        "min_hold",
        "hand-off",
        "list",
        "deadlocks",
    ] {
        assert_found(&found, &format!("ok {subject}"), "");
    }
    assert_found(&found, "note persistence", "appendonly yes");
    assert!(distlock_tests::residue::left_below(std::slice::from_ref(&server), "").is_empty());
    let words = output(&mut doctor(&server.url()));
    assert!(text(&words.stdout).contains("ok       connection: made in "), "{}", text(&words.stdout));
}

#[test]
fn a_policy_that_evicts_locks_is_a_fault() {
    let server = RedisServer::start();
    server.raw(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.raw(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert_found(&examined(&server.url(), 1), "fault eviction", "noeviction");
}

#[test]
fn what_the_user_may_not_do_is_named_with_the_command_to_grant() {
    let (_server, url) = as_user("on >secret ~* &* +@all -client|kill -scan -lrange");
    let found = examined(&url, 0);
    for command in ["+client|kill", "+lrange", "+scan"] {
        assert_found(&found, "note permissions", command);
    }
    let (_server, url) = as_user("on >secret ~* resetchannels +@all -@pubsub");
    assert_found(&examined(&url, 0), "warning hand-off", "subscribe and publish");
    let (_server, url) = as_user("on >secret ~* &* +@all -zadd");
    assert_found(&examined(&url, 1), "fault shared locks", "");
}

#[test]
fn a_server_that_is_not_there_and_a_wrong_password_have_their_statuses() {
    let (server, _) = as_user("on >secret ~* &* +@all");
    let wrong = server.url_as("worker", "other");
    assert_status(&output(&mut doctor(&wrong)), 77);
    assert_status(&output(&mut doctor("redis://127.0.0.1:1/")), 69);
}

#[test]
fn each_server_of_a_cluster_of_a_quorum_and_of_shards_is_looked_at() {
    let cluster = ClusterServers::start();
    let found = examined(&cluster.url(), 0);
    for master in cluster.masters() {
        assert_found(&found, &format!("ok {}: eviction", master.address()), "");
    }
    let shards = ShardServers::start();
    let found = examined(&shards.url(), 0);
    for server in shards.servers() {
        assert_found(&found, &format!("ok {}: eviction", server.address()), "");
    }
    let mut quorum = QuorumServers::start();
    // Servers that no process has met yet do not count if some of them are unreachable.
    assert_found(&examined(&quorum.url(), 0), "ok locks", "");
    quorum.servers_mut()[2].kill9();
    let found = examined(&quorum.url(), 0);
    assert_found(&found, &format!("ok {}: eviction", quorum.servers()[0].address()), "");
    assert_found(&found, &format!("warning {}", quorum.servers()[2].address()), "bring the server back");
    assert_found(&found, "note shared locks", "");
}
