//! Tests of credentials that change, of announced addresses that differ from the reachable ones, and of time-outs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::test_cluster::Cluster;
use super::test_sentinels::Guarded;
use super::test_server::{LONG, Rig, TestServer, wait_until};
use super::{ClusterBackend, RedisConfig};
use crate::backend::{AcquireReply, EarlierCommands, Token, op};
use distlock_store::kit::connection::{AddressMap, ConnectionOptions, Credentials, Provider};

const TTL: Duration = Duration::from_secs(10);

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

/// A user `app` of `server`, with this password.
struct Secret {
    password: Mutex<String>,
    asked: AtomicUsize,
    valid_for: Option<Duration>,
}

impl Secret {
    fn new(server: &TestServer, valid_for: Option<Duration>) -> Arc<Secret> {
        server.run::<()>("ACL SETUSER app on >p1 ~* &* +@all");
        Arc::new(Secret { password: Mutex::new("p1".to_owned()), asked: AtomicUsize::new(0), valid_for })
    }

    fn change(&self, server: &TestServer, password: &str) {
        server.run::<()>(&format!("ACL SETUSER app resetpass >{password}"));
        password.clone_into(&mut self.password.lock().unwrap());
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn options(self: &Arc<Secret>) -> ConnectionOptions {
        let secret = Arc::clone(self);
        let provider = Provider::new(move || {
            secret.asked.fetch_add(1, Ordering::SeqCst);
            let credentials = Credentials::new("app", secret.password.lock().unwrap().clone());
            let valid_for = secret.valid_for;
            async move {
                Ok::<_, String>(valid_for.map_or(credentials.clone(), |time| credentials.valid_for(time)))
            }
        });
        ConnectionOptions { credentials: Some(provider), ..ConnectionOptions::default() }
    }
}

fn start(server: &TestServer, options: &ConnectionOptions) -> Rig {
    Rig::start(RedisConfig::with(&server.url(), "a", options).unwrap())
}

#[test]
fn a_connection_that_is_made_anew_shows_what_counts_then() {
    let server = TestServer::start(&[]);
    let secret = Secret::new(&server, None);
    let rig = start(&server, &secret.options());
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    assert_eq!(server.client_ids(|line| line.contains("user=app")).len(), 2);
    secret.change(&server, "p2");
    for id in server.client_ids(|line| line.contains("user=app")) {
        server.run_words::<i64>(&["CLIENT", "KILL", "ID", &id]);
    }
    rig.wait_for_down();
    rig.wait_until_up();
    assert!(matches!(rig.send("k", set(1)), Ok(AcquireReply::Acquired { .. })));
}

#[test]
fn credentials_that_end_are_renewed_on_the_connections_that_are_open() {
    let server = TestServer::start(&[]);
    let secret = Secret::new(&server, Some(Duration::from_millis(600)));
    let rig = start(&server, &secret.options());
    assert_eq!(rig.wait_until_pushed(), EarlierCommands::Ended);
    let before = server.client_ids(|line| line.contains("user=app"));
    let asked = secret.asked();
    secret.change(&server, "p2");
    wait_until("credentials are renewed twice on both connections", LONG, || secret.asked() >= asked + 4);
    let log: String = server.run("INFO commandstats");
    let auths = log.lines().find_map(|line| line.strip_prefix("cmdstat_auth:calls=")?.split(',').next());
    assert!(auths.unwrap().parse::<usize>().unwrap() >= 2, "{log}");
    assert_eq!(server.client_ids(|line| line.contains("user=app")), before, "the same connections");
    assert!(matches!(rig.send("k", set(1)), Ok(AcquireReply::Acquired { .. })));
}

#[test]
fn a_subscription_that_cannot_show_new_credentials_is_made_anew() {
    // Without HELLO there is no RESP3, and AUTH is not allowed behind SUBSCRIBE.
    let server = TestServer::start(&["--rename-command", "HELLO", ""]);
    let secret = Secret::new(&server, Some(Duration::from_secs(2)));
    let rig = start(&server, &secret.options());
    rig.wait_until_pushed();
    let listener = || server.client_ids(|line| line.contains("sub=1"));
    let first = listener();
    wait_until("another subscription takes its place", LONG, || {
        let now = listener();
        !now.is_empty() && now != first
    });
    assert!(matches!(rig.send("k", set(1)), Ok(AcquireReply::Acquired { .. })));
}

#[test]
fn a_function_that_fails_or_panics_is_asked_again() {
    let server = TestServer::start(&[]);
    server.run::<()>("ACL SETUSER app on >p1 ~* &* +@all");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let provider = Provider::new(move || {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match number {
                0 | 1 => Err("the vault is sealed"),
                2 | 3 => panic!("the vault is gone"),
                _ => Ok(Credentials::new("app", "p1")),
            }
        }
    });
    let options = ConnectionOptions { credentials: Some(provider), ..ConnectionOptions::default() };
    let rig = start(&server, &options);
    let cause = rig.wait_for_down().to_string();
    assert!(cause.contains("the vault is sealed") || cause.contains("panicked"), "{cause}");
    rig.wait_until_up();
}

/// Options that map announced addresses of 127.0.0.1 to `host`.
fn by(host: &'static str) -> (Arc<AtomicUsize>, ConnectionOptions) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let map = AddressMap::new(move |announced, port| {
        count.fetch_add(1, Ordering::SeqCst);
        (announced == "127.0.0.1").then(|| (host.to_owned(), port))
    });
    (asked, ConnectionOptions { address_map: Some(map), ..ConnectionOptions::default() })
}

#[test]
fn the_master_that_sentinels_announce_is_reached_where_the_map_says() {
    let guarded = Guarded::start();
    let (asked, options) = by("localhost");
    let rig = Rig::start(RedisConfig::with(&guarded.url(), "a", &options).unwrap());
    rig.wait_until_up();
    assert!(asked.load(Ordering::SeqCst) > 0);
    let (_, nowhere) = by("nowhere.invalid");
    let rig = Rig::start(RedisConfig::with(&guarded.url(), "b", &nowhere).unwrap());
    let cause = rig.wait_for_down().to_string();
    assert!(cause.contains("nowhere.invalid"), "{cause}");
}

#[test]
fn the_nodes_that_a_cluster_announces_are_reached_where_the_map_says() {
    let cluster = Cluster::start();
    let start = |options| {
        let config = RedisConfig::with(&cluster.url(), "a", options).unwrap();
        Rig::run(ClusterBackend::new(config).unwrap())
    };
    let (asked, options) = by("localhost");
    let rig = start(&options);
    rig.wait_until_up();
    assert!(asked.load(Ordering::SeqCst) > 0);
    let reply = rig.send(&cluster.key_at(0), set(1));
    assert!(matches!(reply, Ok(AcquireReply::Acquired { .. })), "{reply:?}");
    let (_, nowhere) = by("nowhere.invalid");
    let cause = start(&nowhere).wait_for_down().to_string();
    assert!(cause.contains("nowhere.invalid"), "{cause}");
}

#[test]
fn the_announced_addresses_are_used_if_the_map_panics() {
    let (guarded, cluster) = (Guarded::start(), Cluster::start());
    let map = AddressMap::new(|_, _| panic!("the map panics on purpose"));
    let options = ConnectionOptions { address_map: Some(map), ..ConnectionOptions::default() };
    Rig::start(RedisConfig::with(&guarded.url(), "a", &options).unwrap()).wait_until_up();
    let config = RedisConfig::with(&cluster.url(), "a", &options).unwrap();
    Rig::run(ClusterBackend::new(config).unwrap()).wait_until_up();
}

#[test]
fn connecting_takes_no_longer_than_it_may_wherever_nobody_answers() {
    // Its backlog accepts connections, and it never replies.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap();
    for url in [format!("redis://{at}"), format!("redis+sentinel://{at}/m"), format!("redis+cluster://{at}")]
    {
        let config = RedisConfig::new(&format!("{url}?connect_timeout=120ms"), "a").unwrap();
        let begun = std::time::Instant::now();
        let cause = if config.is_spread() {
            Rig::run(ClusterBackend::new(config).unwrap()).wait_for_down()
        } else {
            Rig::start(config).wait_for_down()
        };
        // The default is 3 s.
        assert!(begun.elapsed() < Duration::from_secs(2), "{url}");
        assert!(!cause.to_string().is_empty());
    }
}

#[test]
fn both_connections_carry_the_clients_name() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    assert_eq!(server.command_ids("a").len(), 1);
    let listener = |line: &str| line.contains(" name=a ") && line.contains(" sub=1 ");
    wait_until("the connection for pushes has its name", LONG, || server.client_ids(listener).len() == 1);
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_server_that_refuses_names_pushes_all_the_same() {
    let server = TestServer::start(&[]);
    server.run::<()>("ACL SETUSER default -client|setname");
    let rig = Rig::up(&server, "a");
    assert_eq!(server.client_ids(|line| line.contains(" sub=1 ")).len(), 1);
    assert_eq!(server.client_ids(|line| line.contains(" name=a ")).len(), 0);
    assert!(rig.send("k", set(1)).is_ok());
}
