//! Tests of links to servers and proxies that do not reply like a usual server.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::RedisConfig;
use super::dial::{BlackHole, names};
use super::test_scripted::{Answer, Scripted};
use super::test_server::{Rig, Seen, TestServer, is_command_connection, let_pass, wait_until};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, EarlierCommands, Failure, LinkEvent, LockKind, Notifications, Push,
    ReleaseReply, RenewReply, ServerTime, Token, op,
};

const TTL: Duration = Duration::from_secs(10);

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64, kind: LockKind) -> op::Acquire {
    let (mode, claim) = (AcquireMode::Wait, Duration::from_secs(3));
    op::Acquire { token: Token(token), kind, ttl: TTL, claim, mode, fences: 0 }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

fn config(url: &str, client: &str) -> RedisConfig {
    RedisConfig::new(url, client).unwrap()
}

/// As the port of `server`.
fn at(server: &TestServer) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port))
}

fn with_user(server: &TestServer, name: &str, rules: &str) -> String {
    let mut words = vec!["ACL", "SETUSER", name, "on", ">pw"];
    words.extend(rules.split_whitespace());
    server.run_words::<()>(&words);
    format!("redis://{name}:pw@127.0.0.1:{}/", server.port)
}

fn kill_clients(server: &TestServer, what: impl Fn(&str) -> bool) {
    for id in server.client_ids(what) {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
}

// ---- addresses ----

#[test]
fn an_address_that_does_not_answer_costs_neither_the_first_connection_nor_the_next_one() {
    let (hole, server) = (BlackHole::open(), TestServer::start(&[]));
    names::learn("two-addresses.test", &[hole.address(), at(&server)]);
    let start = Instant::now();
    let rig = Rig::start(config("redis://two-addresses.test/", "a"));
    rig.wait_until_up();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let start = Instant::now();
    kill_clients(&server, |line| is_command_connection(line, "a"));
    rig.wait_for_down();
    rig.wait_until_up();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

// ---- words of refusal ----

/// A server that sends these words to every client, and closes the connection.
fn turns_away(words: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(words.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_client_that_is_turned_away_is_told_why_in_the_servers_own_words() {
    for (words, kind, part) in [
        (
            "-DENIED Redis is running in protected mode because protected mode is enabled\r\n",
            Failure::Refused,
            "protected mode is enabled",
        ),
        ("-ERR max number of clients reached\r\n", Failure::NotSent, "max number of clients reached"),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", Failure::NotSent, "HTTP/1.1 400 Bad Request"),
        ("", Failure::NotSent, "closed the connection without an answer"),
    ] {
        let rig = Rig::start(config(&turns_away(words), "a"));
        for _ in 0..3 {
            let cause = rig.wait_for_down();
            assert_eq!(cause.kind, kind, "{cause}");
            assert!(cause.to_string().contains(part), "{cause}");
        }
    }
}

#[test]
fn a_server_with_too_many_clients_says_so_until_there_is_room() {
    let server = TestServer::start(&[]);
    let others = [server.connection(), server.connection()];
    // With the limit from the start, one of them may be refused, because the server may still count the connection that
    // has found it ready.
    server.run::<()>("CONFIG SET maxclients 2");
    let rig = Rig::start(config(&server.url(), "a"));
    let cause = rig.wait_for_down();
    assert!(cause.to_string().contains("max number of clients reached"), "{cause}");
    drop(others);
    rig.wait_until_up();
}

// ---- proxies ----

#[test]
fn a_cluster_that_is_hidden_is_noticed_before_a_lock_is_taken() {
    let server = TestServer::start(&["--cluster-enabled", "yes"]);
    server.run::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("it serves", Duration::from_secs(10), || {
        server.run::<String>("CLUSTER INFO").contains("cluster_state:ok")
    });
    let url = with_user(&server, "proxied", "~* &* +@all -info -cluster -role");
    let rig = Rig::start(config(&url, "a"));
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    for part in ["key_prefix(\"{locks}:\")", "redis+cluster://", "CrossSlot"] {
        assert!(cause.to_string().contains(part), "{cause}");
    }
    assert_eq!(rig.send("k", set(1)).unwrap_err().kind, Failure::NotSent);
    drop(rig);
    // With that prefix everything works.
    let connect = |client| {
        let rig = Rig::start(RedisConfig { prefix: "{locks}:".to_owned(), ..config(&url, client) });
        rig.wait_until_up();
        rig
    };
    let (a, b) = (connect("a"), connect("b"));
    for kind in [LockKind::Exclusive, LockKind::Shared, LockKind::Limited { max_holders: 1 }] {
        assert!(a.send("k", enter(1, kind)).unwrap().is_acquired());
        // A writer waits behind readers.
        let next = if kind == LockKind::Shared { LockKind::Exclusive } else { kind };
        assert!(matches!(b.send("k", enter(2, next)), Ok(AcquireReply::Busy { .. })));
        assert_eq!(a.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
        assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
        assert_eq!(b.send("k", leave(2)).unwrap(), ReleaseReply::Released { gap: false });
    }
    assert_eq!(server.keys().len(), 0);
}

#[test]
fn a_server_without_scripts_is_refused_before_a_lock_is_taken() {
    let server = Scripted::start(|words| match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["SET", ..] => Answer::Line("+OK\r\n"),
        _ => Answer::Line("-ERR unknown command\r\n"),
    });
    let rig = Rig::start(config(&server.url(), "a"));
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert!(cause.to_string().contains("EVAL"), "{cause}");
}

/// Like twemproxy.
fn closes_on_what_it_does_not_know() -> Scripted {
    Scripted::start(|words| match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["EVAL", "return 1", ..] => Answer::Line(":1\r\n"),
        ["EVALSHA", ..] => Answer::Line("-NOSCRIPT No matching script.\r\n"),
        ["EVAL", ..] => Answer::Line("*3\r\n$7\r\nRENEWED\r\n$7\r\ndl1:a:9\r\n$1\r\n5\r\n"),
        _ => Answer::Close,
    })
}

#[test]
fn a_proxy_that_closes_on_unknown_commands_is_greeted_without_them_the_second_time() {
    let server = closes_on_what_it_does_not_know();
    let rig = Rig::start(config(&server.url(), "a"));
    assert_eq!(rig.wait_until_up(), (EarlierCommands::Ended, Notifications::Off));
    assert!(!rig.seen().iter().any(|seen| matches!(seen, Seen::Link(LinkEvent::Down { .. }))));
    let renew = op::Renew { token: Token(9), kind: LockKind::Exclusive, ttl: TTL, last: false };
    assert!(matches!(rig.send("k", renew), Ok(RenewReply::Renewed { server_time: ServerTime(5) })));
    // Such a proxy may share the keys out by the first one of a command.
    let keys = ["a", "b"].map(Arc::from);
    assert_eq!(rig.backend.acquires_all(&keys), 1);
}

#[test]
fn what_knows_itself_to_be_one_server_takes_several_locks_by_one_command() {
    let server = TestServer::start(&[]);
    let silent = with_user(&server, "silent", "~* &* +@all -info");
    for url in [server.url(), silent] {
        let rig = Rig::start(config(&url, "a"));
        rig.wait_until_up();
        assert_eq!(rig.backend.acquires_all(&["a", "b"].map(Arc::from)), 2, "{url}");
    }
}

// ---- pushes ----

/// Connects for three seconds and returns how many connections that took.
fn connections_within_three_seconds(server: &Scripted) -> usize {
    let rig = Rig::start(config(&server.url(), "a"));
    assert_eq!(rig.wait_until_up().1, Notifications::Off);
    let_pass(Duration::from_secs(3));
    server.connections().len()
}

#[test]
fn a_server_that_refuses_pushes_is_not_asked_for_them_all_the_time() {
    let server = Scripted::start(|words| match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["EVAL", ..] => Answer::Line(":1\r\n"),
        _ => Answer::Line("-ERR invalid request\r\n"),
    });
    let connections = connections_within_three_seconds(&server);
    // For commands; with HELLO; without.
    assert_eq!(connections, 3, "{:?}", server.connections());
}

#[test]
fn a_server_that_closes_when_asked_for_pushes_is_asked_ever_more_seldom() {
    let server = closes_on_what_it_does_not_know();
    let connections = connections_within_three_seconds(&server);
    // Two for commands, and doubling pauses from 10 ms on.
    assert!(connections <= 12, "{connections}");
}

/// While the password is changed, the server may not know the new one yet.
#[test]
fn a_wrong_password_for_pushes_does_not_turn_off_hello() {
    let server = Scripted::start(|words| match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["EVAL", ..] => Answer::Line(":1\r\n"),
        ["HELLO", ..] => Answer::Line("-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        _ => Answer::Line("-ERR invalid request\r\n"),
    });
    let _rig = Rig::start(config(&server.url(), "a"));
    wait_until("it is greeted by HELLO again", Duration::from_secs(10), || {
        let connections = server.connections();
        connections.iter().flatten().filter(|words| words[0] == "HELLO").count() > 1
    });
}

// ---- what was refused once ----

#[test]
fn what_was_refused_is_not_asked_for_at_every_link_anew() {
    let least = "+evalsha +eval +set +get +del +pexpire +pttl +publish +subscribe +unsubscribe +ping \
                 +time +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex";
    let server = TestServer::start(&[]);
    let url = with_user(&server, "least", &format!("~* &* {least}"));
    let rig = Rig::start(config(&url, "a"));
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    let refused: Vec<redis::Value> = server.run("ACL LOG");
    assert!(!refused.is_empty(), "it was asked for once");
    server.run::<()>("ACL LOG RESET");
    for part in [" sub=0 ", " sub=1 "] {
        kill_clients(&server, |line| line.contains("user=least") && line.contains(part));
        wait_until("it is back", Duration::from_secs(10), || {
            let back = |part| server.client_ids(|line| line.contains("user=least") && line.contains(part));
            back(" sub=0 ").len() == 1 && back(" sub=1 ").len() == 1
        });
    }
    rig.wait_for_down();
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).unwrap().is_acquired());
    assert_eq!(server.run::<Vec<redis::Value>>("ACL LOG"), []);
}

/// Forwards bytes to the server that the test chooses.
struct Crossroads {
    address: SocketAddr,
    to: Arc<std::sync::Mutex<SocketAddr>>,
}

impl Crossroads {
    fn to(server: &TestServer) -> Crossroads {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let to = Arc::new(std::sync::Mutex::new(at(server)));
        let target = Arc::clone(&to);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let near = stream.unwrap();
                let Ok(far) = std::net::TcpStream::connect(*target.lock().unwrap()) else { continue };
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    thread::spawn(move || {
                        drop(std::io::copy(&mut from, &mut to));
                        drop(to.shutdown(std::net::Shutdown::Both));
                    });
                }
            }
        });
        Crossroads { address, to }
    }
}

#[test]
fn pushes_follow_the_commands_to_another_server_even_where_servers_do_not_tell_which_they_are() {
    let (old, new) = (TestServer::start(&[]), TestServer::start(&[]));
    for server in [&old, &new] {
        with_user(server, "silent", "~* &* +@all -info");
    }
    let crossroads = Crossroads::to(&old);
    let rig = Rig::start(config(&format!("redis://silent:pw@{}/", crossroads.address), "a"));
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    *crossroads.to.lock().unwrap() = at(&new);
    // The old server lives on, and with it the connection for pushes.
    kill_clients(&old, |line| line.contains("user=silent") && line.contains(" sub=0 "));
    rig.wait_for_down();
    rig.wait_until_up();
    wait_until("the new server has a listener", Duration::from_secs(10), || {
        new.client_ids(|line| line.contains(" sub=1 ")).len() == 1
    });
    assert!(matches!(rig.send("k", set(1)), Ok(AcquireReply::Acquired { .. })));
    assert_eq!(new.run::<String>("GET k"), "dl1:a:1");
}
