//! The contract behind Sentinel, held against real processes.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distlock_fixtures::SentinelGroup;

use super::dial::{BlackHole, names};
use super::test_operations::SendTo;
use super::test_scripted::{Answer, Scripted};
use super::test_sentinels::{Guarded, Sentinel, is_master};
use super::test_server::{LONG, Rig, Seen, TestServer, finish, free_port, wait_until};
use super::{RedisBackend, RedisConfig};
use crate::LockManager;
use crate::backend::{
    AcquireMode, AcquireReply, Failure, LinkEvent, LockKind, Push, ReleaseReply, RenewReply, Token, op,
};

/// Longer than any fail-over takes here.
const TTL: Duration = Duration::from_secs(60);

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

/// Sends until it succeeds.
fn persist<O: SendTo<RedisBackend> + Copy>(
    backend: &RedisBackend,
    key: &str,
    op: &O,
) -> (O::Reply, Duration) {
    let start = Instant::now();
    let key = Arc::from(key);
    loop {
        match finish(op.send_to(backend, &key)) {
            Ok(reply) => return (reply, start.elapsed()),
            Err(error) => assert!(start.elapsed() < LONG, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_master_is_found_through_any_sentinel_that_answers() {
    let guarded = Guarded::start();
    guarded.sentinels[0].stop();
    let nobody = free_port();
    let url = guarded.url().replace("redis+sentinel://", &format!("redis+sentinel://127.0.0.1:{nobody},"));
    let mut config = RedisConfig::new(&url, "a").unwrap();
    // A search that waits for the one that is stopped waits for a part of this.
    config.connect_timeout = LONG * 30;
    let rig = Rig::start(config);
    rig.wait_until_up();
    rig.send("k", set(1)).unwrap();
    assert_eq!(guarded.servers[0].run::<String>("GET k"), "dl1:a:1");
    guarded.sentinels[0].resume();
}

#[test]
fn a_sentinel_is_found_behind_an_address_that_does_not_answer() {
    let guarded = Guarded::start();
    let hole = BlackHole::open();
    let good = SocketAddr::from(([127, 0, 0, 1], guarded.sentinels[0].port()));
    names::learn("two-sentinels.test", &[hole.address(), good]);
    let rig = Rig::start(RedisConfig::new("redis+sentinel://two-sentinels.test/mymaster", "a").unwrap());
    rig.wait_until_up();
}

#[test]
fn a_name_that_no_sentinel_knows_is_named_and_asked_for_again() {
    let sentinel = Sentinel::alone(free_port());
    wait_until("the sentinel answers", LONG, || sentinel.ask(&["MASTERS"]).is_some());
    let url = format!("redis+sentinel://127.0.0.1:{}/other", sentinel.port());
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Later, "{cause}");
    assert!(cause.to_string().contains("no master named `other`"), "{cause}");
}

#[test]
fn without_sentinels_the_reason_names_each_of_them() {
    let (one, two) = (free_port(), free_port());
    let url = format!("redis+sentinel://127.0.0.1:{one},127.0.0.1:{two}/m");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::NotSent);
    for port in [one, two] {
        assert!(cause.to_string().contains(&port.to_string()), "{cause}");
    }
}

#[test]
fn sentinels_have_a_login_of_their_own() {
    let guarded = Guarded::from(SentinelGroup::start_with_sentinels("requirepass secret"));
    let rig = Rig::start(RedisConfig::new(&guarded.url(), "a").unwrap());
    rig.wait_for("the sentinels' refusal", |seen| match seen {
        Seen::Link(LinkEvent::Down { cause }) => cause.to_string().contains("NOAUTH").then_some(()),
        _ => None,
    });
    let rig = Rig::start(RedisConfig::new(&format!("{}?sentinel_pass=secret", guarded.url()), "a").unwrap());
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_killed_master_is_left_for_the_promoted_replica() {
    let mut guarded = Guarded::start();
    let (a, b) = (guarded.rig("a"), guarded.rig("b"));
    a.send("k", set(1)).unwrap();
    wait_until("the lock is replicated", LONG, || guarded.servers[1].run::<i64>("EXISTS k") == 1);
    guarded.servers[0].kill();
    let (reply, took) = persist(
        &a.backend,
        "k",
        &op::Renew { token: Token(1), kind: LockKind::Exclusive, ttl: TTL, last: false },
    );
    assert!(matches!(reply, RenewReply::Renewed { .. }), "{reply:?}");
    let promoted = wait_until("promoted", LONG, || is_master(&guarded.servers[1]));
    eprintln!(
        "master killed -9, sentinels' down-after 1 s: {took:?} until the next reply ({promoted:?} off)"
    );
    // Grants are pushed by the new master.
    b.wait_for_down();
    b.wait_until_up();
    let enter = op::Acquire {
        token: Token(2),
        kind: LockKind::Exclusive,
        ttl: TTL,
        claim: Duration::from_secs(3),
        mode: AcquireMode::Wait,
        fences: 0,
    };
    assert!(matches!(b.send("k", enter), Ok(AcquireReply::Busy { .. })));
    wait_until("b listens at the new master", LONG, || {
        // The sentinels subscribe too, but not over RESP3.
        guarded.servers[1].client_ids(|line| line.contains("sub=1") && line.contains("resp=3")).len() == 2
    });
    assert!(matches!(a.send("k", leave(1)), Ok(ReleaseReply::Released { .. })));
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    b.send("k", leave(2)).unwrap();
    assert_eq!(guarded.servers[1].keys().len(), 0, "no residue");
}

#[test]
fn a_demoted_master_is_left_long_before_it_refuses() {
    let guarded = Guarded::start();
    let rig = guarded.rig("a");
    rig.send("k", set(1)).unwrap();
    assert!(guarded.sentinels[0].ask(&["FAILOVER", "mymaster"]).is_some());
    wait_until("the replica is promoted", LONG, || is_master(&guarded.servers[1]));
    let start = Instant::now();
    rig.wait_for_down();
    let (left, was_demoted) = (start.elapsed(), !is_master(&guarded.servers[0]));
    rig.wait_until_up();
    let back = start.elapsed();
    let demoted = wait_until("the old master is demoted", LONG, || {
        let info = guarded.servers[0].try_run::<String>("INFO replication");
        info.is_some_and(|info| info.contains("role:slave"))
    });
    eprintln!(
        "SENTINEL FAILOVER: after the promotion the old master was left after {left:?} (demoted then: \
         {was_demoted}), the new one in use after {back:?}; the old one said OK for {:?}",
        back + demoted
    );
    assert!(left < Duration::from_secs(3), "{left:?}");
    assert!(matches!(rig.send("j", set(2)), Ok(AcquireReply::Acquired { .. })));
    assert_eq!(guarded.servers[1].run::<String>("GET j"), "dl1:a:2");
    rig.send("j", leave(2)).unwrap();
    rig.send("k", leave(1)).unwrap();
    assert_eq!(guarded.servers[1].keys().len(), 0, "no residue");
}

#[test]
fn sentinels_tell_of_a_new_master_without_being_asked() {
    let guarded = Guarded::start();
    let mut config = RedisConfig::new(&guarded.url(), "a").unwrap();
    config.sentinels_every = LONG * 100;
    let rig = Rig::start(config);
    rig.wait_until_up();
    // The sentinels listen to each other, but not to two channels.
    let hears = |sentinel: &Sentinel| match sentinel.run(&["CLIENT", "LIST"]) {
        Some(redis::Value::BulkString(list)) => String::from_utf8_lossy(&list).contains(" sub=2 "),
        _ => false,
    };
    wait_until("every sentinel is listened to", LONG, || guarded.sentinels.iter().all(hears));
    assert!(guarded.sentinels[0].ask(&["FAILOVER", "mymaster"]).is_some());
    wait_until("the replica is promoted", LONG, || is_master(&guarded.servers[1]));
    let promoted = Instant::now();
    assert!(rig.wait_for_down().to_string().contains("another master"));
    eprintln!("SENTINEL FAILOVER: the old master was left {:?} after the promotion", promoted.elapsed());
    rig.wait_until_up();
    rig.send("k", set(1)).unwrap();
    assert_eq!(guarded.servers[1].run::<String>("GET k"), "dl1:a:1");
}

#[test]
fn a_lock_that_the_fail_over_lost_is_reported_to_its_holder() {
    let mut guarded = Guarded::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let manager = runtime.block_on(LockManager::connect(guarded.url())).unwrap();
    let (kept, lost) = runtime.block_on(async {
        let kept = manager.lock("kept").ttl(LONG).acquire().await.unwrap();
        let lost = manager.lock("lost").ttl(LONG).acquire().await.unwrap();
        (kept, lost)
    });
    wait_until("the locks are replicated", LONG, || guarded.servers[1].keys().len() == 2);
    // As if this write had not been replicated.
    guarded.servers[1].run::<()>("CONFIG SET replica-read-only no");
    guarded.servers[1].run::<()>("DEL lost");
    guarded.servers[0].kill();
    let start = Instant::now();
    runtime.block_on(async { tokio::time::timeout(LONG / 2, lost.lost()).await }).unwrap();
    eprintln!("a lock lost in a fail-over was reported {:?} after the master was killed", start.elapsed());
    assert!(lost.check().unwrap_err().is_lost());
    assert!(kept.is_held());
    runtime.block_on(async { kept.release().await }).unwrap();
    runtime.block_on(async { manager.lock("lost").acquire().await.unwrap().release().await }).unwrap();
    assert_eq!(guarded.servers[1].keys().len(), 0, "no residue");
}

#[test]
fn losing_the_sentinels_does_not_cost_a_good_link() {
    let mut guarded = Guarded::start();
    let rig = guarded.rig("a");
    let ports: Vec<u16> = guarded.sentinels.iter().map(|sentinel| sentinel.port()).collect();
    guarded.sentinels.clear();
    let asked = Arc::new(AtomicUsize::new(0));
    for port in ports {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let asked = Arc::clone(&asked);
        // Gone with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
                asked.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    wait_until("nobody answers where the sentinels were", LONG, || asked.load(Ordering::SeqCst) >= 6);
    assert!(rig.send("k", set(1)).is_ok());
    assert!(!rig.seen().iter().any(|seen| matches!(seen, Seen::Link(LinkEvent::Down { .. }))));
}

/// A sentinel that names this master, and whose news can be subscribed to.
fn scripted_sentinel(master: u16) -> Scripted {
    let port = master.to_string();
    let named = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len());
    // As long as the process: a reply of a script is text of the program.
    let named: &'static str = Box::leak(named.into_boxed_str());
    Scripted::start(move |words| match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", _] => Answer::Line(named),
        ["SENTINEL", "MASTER", _] => Answer::Line("*2\r\n$12\r\nconfig-epoch\r\n$1\r\n3\r\n"),
        ["SUBSCRIBE", "+promoted-slave"] => {
            Answer::Line("*3\r\n$9\r\nsubscribe\r\n$15\r\n+promoted-slave\r\n:1\r\n")
        }
        ["SUBSCRIBE", "+switch-master"] => {
            Answer::Line("*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:2\r\n")
        }
        _ => Answer::Line("-ERR unknown command\r\n"),
    })
}

#[test]
fn while_all_is_calm_a_sentinel_that_publishes_news_is_asked_less_and_less() {
    let master = TestServer::start(&[]);
    let sentinel = scripted_sentinel(master.port);
    let url = format!("redis+sentinel://{}/mymaster", sentinel.address);
    let mut config = RedisConfig::new(&url, "a").unwrap();
    config.sentinels_every = Duration::from_millis(20);
    let rig = Rig::start(config);
    rig.wait_until_up();
    let asked = || {
        let connections = sentinel.connections();
        connections.iter().flatten().filter(|words| words.get(1).is_some_and(|word| word == "MASTER")).count()
    };
    let next = || {
        let before = asked();
        wait_until("it is asked again", LONG, || asked() > before)
    };
    // Every 20 ms without a subscription, every 50 to 100 ms at first with one, in the end every 300 to 600 ms.
    while next() < Duration::from_millis(250) {
        assert!(asked() <= 400, "{} questions, and no end of it", asked());
    }
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn while_the_master_is_gone_a_sentinel_is_asked_seldom() {
    let sentinel = Scripted::start(|words| match words {
        ["PING"] => Answer::Line("+PONG\r\n"),
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", _] => Answer::Line("*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n"),
        ["SENTINEL", "MASTER", _] => Answer::Line("*2\r\n$12\r\nconfig-epoch\r\n$1\r\n3\r\n"),
        _ => Answer::Line("-ERR unknown command\r\n"),
    });
    let url = format!("redis+sentinel://{}/mymaster", sentinel.address);
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_for_down();
    let asked = || {
        let connections = sentinel.connections();
        connections.iter().flatten().filter(|words| words[0] == "SENTINEL").count()
    };
    let time_of = |more: usize| {
        let enough = asked() + more;
        wait_until("it is asked again", LONG, || asked() >= enough)
    };
    // Quickly at first.
    while time_of(5) < Duration::from_millis(1_500) {
        assert!(asked() <= 80, "{} questions, and no end of it", asked());
    }
    let took = time_of(10);
    eprintln!("{} questions, the last ten within {took:?}", asked());
    assert!(took >= Duration::from_secs(3), "{took:?}");
}
