//! Acquisitions and renewals that replicas confirm, held against real processes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::RedisConfig;
use super::test_sentinels::{Guarded, is_master};
use super::test_server::{LONG, Rig, Seen, TestServer, block_on, wait_until};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, Failure, LockKind, OpResult, RenewReply, Token, op,
};
use crate::{LockError, LockManager, LostReason};

const TTL: Duration = Duration::from_secs(30);

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64, mode: AcquireMode) -> op::Acquire {
    let claim = Duration::from_secs(3);
    op::Acquire { token: Token(token), kind: LockKind::Exclusive, ttl: TTL, claim, mode, fences: 0 }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

fn renew(token: u64) -> op::Renew {
    op::Renew { token: Token(token), kind: LockKind::Exclusive, ttl: 2 * TTL, last: false }
}

/// A master with two replicas.
struct Trio {
    master: TestServer,
    replicas: [TestServer; 2],
}

impl Trio {
    fn start() -> Trio {
        let master = TestServer::start(&["--repl-diskless-sync-delay", "0"]);
        let at = format!("127.0.0.1 {}", master.port);
        let replicas = std::array::from_fn(|_| TestServer::start(&["--replicaof", &at]));
        let trio = Trio { master, replicas };
        wait_until("the replicas follow", LONG, || {
            let mut pipeline = redis::pipe();
            pipeline.set("k", "").del("k").cmd("WAIT").arg(2).arg(100);
            let answers: (redis::Value, redis::Value, u32) =
                pipeline.query(&mut trio.master.connection()).unwrap();
            answers.2 == 2
        });
        trio
    }

    /// A client that asks for `count` confirmations and waits `time_limit` for them.
    fn rig(&self, client: &str, count: u32, time_limit: Duration) -> Rig {
        let mut config = RedisConfig::new(&self.master.url(), client).unwrap();
        config.replicas = count;
        config.op_timeout = time_limit;
        let rig = Rig::start(config);
        rig.wait_until_pushed();
        rig
    }

    async fn manager(&self, count: u32) -> LockManager {
        manager_of(&self.master, count).await
    }

    fn stop_replicas(&self) {
        self.replicas.iter().for_each(TestServer::stop);
    }

    fn resume_replicas(&self) {
        self.replicas.iter().for_each(TestServer::resume);
    }

    /// Connections on which WAIT is being answered.
    fn blocked(&self) -> Vec<String> {
        self.master.client_ids(|line| line.contains(" flags=b ") && line.contains(" cmd=wait "))
    }
}

async fn manager_of(server: &TestServer, count: u32) -> LockManager {
    let url = format!("{}?replicas={count}", server.url());
    let builder = LockManager::builder().url(url).unavailable_after(Duration::from_secs(1));
    builder.connect().await.unwrap()
}

#[test]
fn an_acquisition_counts_once_the_replicas_have_it() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, LONG);
    assert!(matches!(rig.send("k", set(1)), Ok(AcquireReply::Acquired { .. })));
    for replica in &trio.replicas {
        assert_eq!(replica.run::<String>("GET k"), "dl1:a:1");
    }
    trio.stop_replicas();
    let pending = rig.begin("j", set(2));
    wait_until("it waits for the replicas", LONG, || !trio.blocked().is_empty());
    assert!(!pending.is_finished());
    trio.resume_replicas();
    assert!(matches!(pending.join().unwrap(), Ok(AcquireReply::Acquired { .. })));
    // Replies that promise no lease are not confirmed.
    trio.stop_replicas();
    assert!(matches!(rig.send("j", set(3)), Ok(AcquireReply::Busy { .. })));
    rig.send("j", leave(2)).unwrap();
    rig.send("k", leave(1)).unwrap();
    assert_eq!(trio.master.keys().len(), 0, "no residue");
    trio.resume_replicas();
}

#[test]
fn a_renewal_counts_once_the_replicas_have_it() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, Duration::from_millis(300));
    let confirmed = |key| rig.send(key, enter(1, AcquireMode::Try)).is_ok_and(|reply| reply.is_acquired());
    wait_until("the locks are confirmed", LONG, || ["j", "k"].into_iter().all(confirmed));
    let renew_all = || -> Vec<OpResult<RenewReply>> {
        let batch = [("j", 1), ("k", 1), ("k", 2)].map(|(key, token)| (Arc::from(key), renew(token)));
        block_on(rig.backend.send_renew_all(batch.into()).remove(0).results)
    };
    let is_unconfirmed = |reply: &OpResult<RenewReply>| {
        let error = reply.as_ref().unwrap_err();
        error.kind == Failure::Unknown && error.to_string().contains("0 of the 2 replicas")
    };
    trio.stop_replicas();
    assert!(is_unconfirmed(&rig.send("k", renew(1))));
    // The server has it, so the engine may only believe that it may have been applied.
    assert!(trio.master.run::<u64>("PTTL k") > 40_000);
    let replies = renew_all();
    assert!(replies[..2].iter().all(is_unconfirmed), "{replies:?}");
    // A loss needs no confirmation.
    assert!(matches!(replies[2], Ok(RenewReply::NotHeld)), "{replies:?}");
    assert!(matches!(rig.send("k", renew(2)), Ok(RenewReply::NotHeld)));
    trio.resume_replicas();
    let renewed = |reply: &OpResult<RenewReply>| matches!(reply, Ok(RenewReply::Renewed { .. }));
    wait_until("the replicas confirm again", LONG, || renewed(&rig.send("k", renew(1))));
    wait_until("they confirm many", LONG, || renew_all()[..2].iter().all(renewed));
    for replica in &trio.replicas {
        assert!(replica.run::<u64>("PTTL k") > 40_000);
    }
}

#[tokio::test]
async fn a_holder_that_only_the_old_master_renews_loses_the_lock_before_the_promoted_replica_grants_it() {
    let trio = Trio::start();
    let [promoted, other] = &trio.replicas;
    let a = trio.manager(1).await;
    let guard = a.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    // Both replicas must have it: only one has confirmed it.
    let has_lock = |server: &TestServer| server.exists("k");
    wait_until("the replicas have the lock", LONG, || trio.replicas.iter().all(has_lock));
    // The old master and `a` are on one side of a partition.
    promoted.run::<()>("REPLICAOF NO ONE");
    other.run_words::<()>(&["REPLICAOF", "127.0.0.1", &promoted.port.to_string()]);
    let b = manager_of(promoted, 0).await;
    let second = b.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(!guard.is_held(), "two holders");
    let lost = guard.lost().await;
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Expired, .. }), "{lost:?}");
    second.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_outlives_a_short_loss_of_its_replicas() {
    let trio = Trio::start();
    let manager = trio.manager(2).await;
    let ttl = Duration::from_secs(9);
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    let first_end = Instant::now() + ttl;
    trio.stop_replicas();
    let error = guard.extend(ttl).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(Instant::now() + guard.remaining() <= first_end, "an extension without a confirmation counts");
    trio.resume_replicas();
    wait_until("a renewal is confirmed", LONG, || Instant::now() + guard.remaining() > first_end);
    guard.release().await.unwrap();
}

#[test]
fn too_few_confirmations_are_counted_in_the_reason() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, Duration::from_millis(300));
    trio.replicas[0].stop();
    let error = rig.send("k", set(1)).unwrap_err();
    assert_eq!(error.kind, Failure::Unknown);
    // On a busy machine the other one may not confirm it in time either: asked again, it will have.
    wait_until("the other replica has confirmed it", LONG, || {
        let error = rig.send("k", enter(1, AcquireMode::Try)).unwrap_err();
        error.to_string().contains("1 of the 2 replicas")
    });
    trio.replicas[0].resume();
    // The engine asks again.
    wait_until("the replica has caught up", LONG, || {
        matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(AcquireReply::AlreadyHeld { .. }))
    });
}

#[tokio::test]
async fn without_its_replicas_a_lock_is_unavailable_and_given_back() {
    let trio = Trio::start();
    let manager = trio.manager(2).await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    trio.stop_replicas();
    let start = Instant::now();
    let several = manager.lock_all(["x", "y", "z"]);
    for request in [manager.lock("k"), manager.lock("j").no_wait(), several] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        let LockError::Unavailable { source, .. } = &error else { unreachable!() };
        // On a busy machine the master may not answer in time either.
        let told = source.to_string();
        assert!(told.contains("0 of the 2 replicas") || told.contains("did not answer in time"), "{error}");
    }
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    wait_until("nothing stays", LONG, || trio.master.keys().is_empty());
    trio.resume_replicas();
    let guard = manager.lock("k").acquire().await.unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_request_dropped_before_its_confirmation_leaves_nothing() {
    let trio = Trio::start();
    let manager = trio.manager(1).await;
    trio.stop_replicas();
    {
        let mut request = std::pin::pin!(manager.lock("k").acquire());
        let poll =
            |cx: &mut std::task::Context<'_>| std::task::Poll::Ready(request.as_mut().poll(cx).is_pending());
        assert!(std::future::poll_fn(poll).await, "not confirmed, but acquired");
        wait_until("the server has it", LONG, || trio.master.run::<i64>("EXISTS k") == 1);
    }
    wait_until("nothing stays", LONG, || trio.master.keys().is_empty());
    trio.resume_replicas();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[test]
fn a_broken_line_to_the_replicas_is_replaced() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, LONG);
    rig.send("i", set(1)).unwrap();
    // While it is idle.
    let lines = || trio.master.client_ids(|line| line.contains(" cmd=wait "));
    wait_until("the server has noticed that the one of `start` is closed", LONG, || lines().len() == 1);
    let lines = lines();
    trio.master.run_words::<()>(&["CLIENT", "KILL", "ID", &lines[0]]);
    assert!(matches!(rig.send("j", set(2)), Ok(AcquireReply::Acquired { .. })));
    // While WAIT is in progress.
    trio.stop_replicas();
    let pending = rig.begin("k", set(3));
    wait_until("it waits for the replicas", LONG, || !trio.blocked().is_empty());
    let cut = trio.blocked();
    trio.master.run_words::<()>(&["CLIENT", "KILL", "ID", &cut[0]]);
    wait_until("it waits for them elsewhere", LONG, || trio.blocked().iter().any(|line| !cut.contains(line)));
    assert!(!pending.is_finished());
    trio.resume_replicas();
    assert!(matches!(pending.join().unwrap(), Ok(AcquireReply::Acquired { .. })));
}

#[test]
fn a_line_that_falls_silent_is_given_up() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, Duration::from_secs(2));
    trio.stop_replicas();
    let first = rig.begin("i", set(1));
    wait_until("it waits for the replicas", LONG, || !trio.blocked().is_empty());
    let second = rig.begin("j", set(2));
    wait_until("the server has the second", LONG, || trio.master.run::<i64>("EXISTS j") == 1);
    // The next round's write gets no answer, while the link is fine.
    trio.master.run::<()>("CLIENT PAUSE 60000 WRITE");
    assert!(first.join().unwrap().unwrap_err().to_string().contains("0 of the 2 replicas"));
    let error = second.join().unwrap().unwrap_err();
    assert_eq!(error.kind, Failure::Unknown);
    assert!(error.to_string().contains("no answer about the replicas"), "{error}");
    trio.master.run::<()>("CLIENT UNPAUSE");
    trio.resume_replicas();
    wait_until("the replicas confirm again", LONG, || {
        matches!(rig.send("j", enter(2, AcquireMode::Try)), Ok(AcquireReply::AlreadyHeld { .. }))
    });
}

#[tokio::test]
async fn a_lease_that_runs_out_before_its_confirmation_is_not_acquired() {
    let trio = Trio::start();
    let manager = trio.manager(2).await;
    trio.stop_replicas();
    let error = manager.lock("k").ttl(Duration::from_millis(100)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    wait_until("nothing stays", LONG, || trio.master.keys().is_empty());
    trio.resume_replicas();
}

#[test]
fn a_lost_link_ends_the_wait_for_its_replicas() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, LONG);
    trio.stop_replicas();
    let pending = rig.begin("k", set(1));
    wait_until("it waits for the replicas", LONG, || !trio.blocked().is_empty());
    for id in trio.master.command_ids("a") {
        trio.master.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    rig.wait_for_down();
    rig.wait_until_up();
    trio.resume_replicas();
    let error = pending.join().unwrap().unwrap_err();
    assert_eq!(error.kind, Failure::Unknown, "{error}");
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(AcquireReply::AlreadyHeld { .. })));
}

#[test]
fn a_grant_is_delivered_once_the_replicas_have_it() {
    let trio = Trio::start();
    let (a, b) = (trio.rig("a", 0, LONG), trio.rig("b", 2, LONG));
    a.send("k", enter(1, AcquireMode::Try)).unwrap();
    assert!(matches!(b.send("k", enter(2, AcquireMode::Wait)), Ok(AcquireReply::Busy { .. })));
    trio.stop_replicas();
    a.send("k", leave(1)).unwrap();
    wait_until("the grant waits for the replicas", LONG, || !trio.blocked().is_empty());
    assert!(!b.seen().iter().any(|seen| matches!(seen, Seen::Push(_))));
    trio.resume_replicas();
    b.wait_for_push();
    assert_eq!(trio.replicas[0].run::<String>("GET k"), "dl1:b:2");
}

#[test]
fn acquisitions_of_one_moment_share_a_confirmation() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, LONG);
    trio.stop_replicas();
    let pending: Vec<_> = (1..=100).map(|number| rig.begin(&format!("k{number}"), set(number))).collect();
    wait_until("they wait for the replicas", LONG, || {
        !trio.blocked().is_empty() && trio.master.keys().len() == 100
    });
    trio.resume_replicas();
    for reply in pending {
        assert!(matches!(reply.join().unwrap(), Ok(AcquireReply::Acquired { .. })));
    }
    let stats: String = trio.master.run("INFO commandstats");
    let waits = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next());
    let waits: u32 = waits.unwrap().parse().unwrap();
    assert!(waits < 20, "{waits} confirmations of 100 acquisitions");
}

#[test]
fn a_server_that_refuses_to_say_is_refused() {
    let trio = Trio::start();
    trio.master.run::<()>("ACL SETUSER u on >p ~* &* +@all -wait");
    let url = trio.master.url().replace("redis://", "redis://u:p@");
    let rig = Rig::start(RedisConfig::new(&format!("{url}?replicas=1"), "a").unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused);
    assert!(cause.to_string().contains("`+wait`"), "{cause}");
    // Without it, no client asks.
    Rig::start(RedisConfig::new(&url, "a").unwrap()).wait_until_up();
}

#[tokio::test]
async fn locks_in_memory_and_in_a_cluster_have_no_replicas() {
    for url in ["memory:", "redis+cluster://127.0.0.1"] {
        let error = LockManager::builder().url(url).replicas(1).connect().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    }
    LockManager::builder().url("memory:").replicas(0).connect().await.unwrap();
}

#[test]
fn a_fail_over_loses_no_lock_that_was_confirmed() {
    let mut guarded = Guarded::start();
    let mut config = RedisConfig::new(&guarded.url(), "a").unwrap();
    config.replicas = 1;
    let rig = Rig::start(config);
    rig.wait_until_up();
    let confirmed = thread::scope(|scope| {
        let acquiring = scope.spawn(|| {
            let acquired = |number: &u64| {
                matches!(rig.send(&format!("k{number}"), set(*number)), Ok(AcquireReply::Acquired { .. }))
            };
            (1..).take_while(acquired).count()
        });
        wait_until("locks are acquired", LONG, || guarded.servers[0].keys().len() > 200);
        guarded.servers[0].kill();
        acquiring.join().unwrap()
    });
    assert!(confirmed >= 200, "{confirmed}");
    wait_until("the replica is promoted", LONG, || is_master(&guarded.servers[1]));
    for number in 1..=confirmed {
        assert_eq!(guarded.servers[1].run::<String>(&format!("GET k{number}")), format!("dl1:a:{number}"));
    }
    // The new master has no replica before the old one is back.
    guarded.servers[0].start_again();
    wait_until("locks are confirmed again", LONG * 2, || {
        matches!(
            rig.send("k", enter(0, AcquireMode::Try)),
            Ok(AcquireReply::Acquired { .. } | AcquireReply::AlreadyHeld { .. })
        )
    });
    assert_eq!(guarded.servers[0].run::<String>("GET k"), "dl1:a:0");
}

/// After a panic, the driver calls `run` again.
#[test]
fn replicas_confirm_after_a_second_run() {
    let trio = Trio::start();
    let rig = trio.rig("a", 2, LONG);
    let backend = Arc::clone(&rig.backend);
    drop(rig);
    let rig = Rig::run(backend);
    rig.wait_until_up();
    assert!(matches!(rig.send("k", set(1)), Ok(AcquireReply::Acquired { .. })));
}
