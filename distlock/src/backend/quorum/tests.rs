//! Tests of a quorum of real servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, mpsc};

use super::member_events::MemberEvents;
use super::{Input, QuorumBackend};
use crate::backend::redis::test_server::{TestServer, wait_until};
use crate::backend::redis::{RedisBackend, RedisConfig};
use crate::backend::{
    Backend, EarlierCommands, Events, Failure, LinkEvent, LockKind, Notifications, Push, Sending, StoreError,
    Token, Who, op,
};
use crate::{Guard, LockError, LockManager, LockRequest};

const TTL: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(20);

struct Servers(Vec<TestServer>);

impl Servers {
    fn start(count: usize) -> Servers {
        Servers((0..count).map(|_| TestServer::start(&[])).collect())
    }

    fn urls(&self) -> Vec<String> {
        self.0.iter().map(TestServer::url).collect()
    }

    async fn manager(&self) -> LockManager {
        try_manager(self.urls()).await.unwrap()
    }

    /// The number of servers that have the key.
    fn with_key(&self, key: &str) -> usize {
        self.0.iter().filter(|server| server.run::<bool>(&format!("EXISTS {key}"))).count()
    }
}

async fn try_manager(urls: Vec<String>) -> Result<LockManager, LockError> {
    LockManager::builder().quorum(urls).default_ttl(TTL).connect().await
}

fn refused(result: Result<LockManager, LockError>) -> String {
    match result.unwrap_err() {
        LockError::InvalidOptions { reason, .. } => reason.to_string(),
        LockError::Unavailable { source, .. } => source.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_count_that_makes_no_quorum_is_refused_before_connecting() {
    let urls =
        |ports: &[u16]| ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect::<Vec<_>>();
    for (ports, reason) in [
        (&[1][..], "at least three"),
        (&[1, 2], "at least three"),
        (&[1, 2, 3, 4], "even number"),
        (&[1, 2, 2], "named twice"),
    ] {
        let text = refused(try_manager(urls(ports)).await);
        assert!(text.contains(reason), "{ports:?}: {text}");
    }
    let one = refused(LockManager::connect("redis+quorum://h1,h2").await);
    assert!(one.contains("at least three"), "{one}");
    let text = refused(
        try_manager(vec!["redis+cluster://a".into(), "redis://b".into(), "redis+sentinel://c/m".into()])
            .await,
    );
    assert!(text.contains("single independent server"), "{text}");
    let replicas = LockManager::builder().quorum(urls(&[1, 2, 3])).replicas(1).connect_lazy();
    assert!(refused(replicas).contains("several masters"));
    let both = LockManager::builder().url("redis://a").quorum(["redis://b"]).connect_lazy();
    assert!(refused(both).contains("both"));
}

#[tokio::test]
async fn servers_that_depend_on_each_other_are_refused() {
    let servers = Servers::start(2);
    let clustered = TestServer::start(&["--cluster-enabled", "yes"]);
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &servers.0[0].port.to_string()]);
    let third = |url: String| {
        let mut urls = servers.urls();
        urls.push(url);
        urls
    };
    let text = refused(try_manager(third(clustered.url())).await);
    assert!(text.contains("cluster mode"), "{text}");
    let text = refused(try_manager(third(replica.url())).await);
    assert!(text.contains("replica"), "{text}");
    let again = servers.urls()[0].replace("127.0.0.1", "localhost");
    let text = refused(try_manager(third(again)).await);
    assert!(text.contains("the same server"), "{text}");
}

#[tokio::test]
async fn kinds_that_do_not_compose_are_refused_with_the_reason() {
    let servers = Servers::start(3);
    let manager = servers.manager().await;
    for request in [manager.lock("k").shared(), manager.lock("k").max_holders(3)] {
        let Err(LockError::InvalidOptions { reason, .. }) = request.try_acquire().await else { panic!() };
        assert!(reason.contains("quorum"), "{reason}");
    }
}

#[tokio::test]
async fn a_lock_is_kept_on_every_server_and_leaves_nothing_behind() {
    let servers = Servers::start(5);
    let url = format!(
        "redis+quorum://{}",
        servers.0.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect::<Vec<_>>().join(",")
    );
    let manager = LockManager::connect(&url).await.unwrap();
    let guard = manager.lock("k").fenced().acquire().await.unwrap();
    wait_until("every server has it", LONG, || servers.with_key("k") == 5);
    let other = servers.manager().await;
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    let seen = other.inspect("k").await.unwrap().unwrap();
    assert!(seen.remaining.unwrap() > Duration::from_secs(20), "{seen:?}");
    let first = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    wait_until("no server has it", LONG, || servers.with_key("k") == 0);
    let guard = other.lock("k").fenced().acquire().await.unwrap();
    assert!(guard.fencing_token().unwrap() > first);
    assert!(other.force_release("k").await.unwrap());
    assert!(other.inspect("k").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_one_is_woken_by_a_release() {
    let servers = Servers::start(5);
    let (holder, waiter) = (servers.manager().await, servers.manager().await);
    let guard = holder.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    let waiting = tokio::spawn(async move { waiter.lock("k").wait(LONG).acquire().await });
    wait_until("somebody waits on one server", LONG, || {
        servers.0.iter().map(|server| server.run::<u64>("LLEN dl1:q:k")).sum::<u64>() == 1
    });
    let start = Instant::now();
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    // Its own heartbeat would come after about two seconds.
    assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
    guard.release().await.unwrap();
    wait_until("nothing is left", LONG, || {
        servers.with_key("k") + servers.with_key("dl1:q:k") + servers.with_key("dl1:e:k") == 0
    });
}

impl Servers {
    /// The server that keeps the queue, as soon as `waiters` wait there.
    fn queue_server(&self, key: &str, waiters: u64) -> usize {
        let length = |server: &TestServer| server.run::<u64>(&format!("LLEN dl1:q:{key}"));
        wait_until("everybody waits on one server", LONG, || {
            self.0.iter().any(|server| length(server) == waiters)
        });
        self.0.iter().position(|server| length(server) == waiters).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_programs_that_name_the_servers_in_another_order_queue_together() {
    let servers = Servers::start(3);
    let mut urls = servers.urls();
    let holder = servers.manager().await;
    let guard = holder.lock("k").ttl(LONG).acquire().await.unwrap();
    let mut waiting = Vec::new();
    // Each server is named first once.
    for _ in 0..3 {
        urls.rotate_left(1);
        waiting.push(tokio::spawn(in_turn(try_manager(urls.clone()).await.unwrap(), "k")));
    }
    servers.queue_server("k", 3);
    guard.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
}

/// Waits for its turn, and holds the key for a moment.
async fn in_turn(manager: LockManager, key: &'static str) {
    let guard = manager.lock(key).ttl(LONG).wait(LONG).acquire().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_queue_server_is_killed_waiters_queue_on_the_next() {
    let mut servers = Servers::start(5);
    let (holder, waiter, other) = (servers.manager().await, servers.manager().await, servers.manager().await);
    let guard = holder.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiting = [tokio::spawn(in_turn(waiter, "k")), tokio::spawn(in_turn(other, "k"))];
    let first = servers.queue_server("k", 2);
    servers.0[first].kill();
    servers.0.remove(first);
    // It acquires the lock long before a heartbeat.
    let start = Instant::now();
    servers.queue_server("k", 2);
    assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
    guard.release().await.unwrap();
    for waiting in waiting {
        waiting.await.unwrap();
    }
    wait_until("nothing is left", LONG, || {
        servers.with_key("k") + servers.with_key("dl1:q:k") + servers.with_key("dl1:e:k") == 0
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_queue_server_hangs_or_forgets_its_queue_waiters_go_on() {
    let servers = Servers::start(5);
    let faults: [fn(&TestServer); 2] = [TestServer::stop, |server| server.run("FLUSHALL")];
    for fault in faults {
        let (holder, waiter) = (servers.manager().await, servers.manager().await);
        let guard = holder.lock("k").ttl(LONG).acquire().await.unwrap();
        let waiting = tokio::spawn(in_turn(waiter, "k"));
        let first = servers.queue_server("k", 1);
        fault(&servers.0[first]);
        let start = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        // A later request does not wait for the server.
        let start = Instant::now();
        in_turn(holder, "k").await;
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        servers.0[first].resume();
        wait_until("nothing is left", LONG, || servers.with_key("k") == 0);
    }
}

/// The process that releases immediately requests the lock again, and never queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_takes_a_lock_again_and_again_lets_others_in() {
    let servers = Servers::start(5);
    let (greedy, waiter) = (servers.manager().await, servers.manager().await);
    let mut guard = greedy.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(in_turn(waiter, "k"));
    servers.queue_server("k", 1);
    for turn in 0.. {
        guard.release().await.unwrap();
        guard = greedy.lock("k").wait(LONG).acquire().await.unwrap();
        if waiting.is_finished() {
            break;
        }
        assert!(turn < 20, "{turn} turns of one process");
    }
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_minority_that_is_gone_or_hung_changes_nothing() {
    let mut servers = Servers::start(5);
    let manager = servers.manager().await;
    servers.0[0].kill();
    servers.0[1].stop();
    let guard = manager.lock("k").acquire().await.unwrap();
    assert!(servers.manager().await.lock("k").try_acquire().await.unwrap().is_none());
    guard.extend(Duration::from_secs(3)).await.unwrap();
    guard.release().await.unwrap();
    servers.0[1].resume();
    servers.0[0].start_again();
    wait_until("nothing is left on any server", LONG, || servers.with_key("k") == 0);
}

#[tokio::test]
async fn without_a_majority_it_is_unavailable_and_says_so() {
    let mut servers = Servers::start(3);
    let manager = servers.manager().await;
    servers.0[0].kill();
    servers.0[1].kill();
    let request = manager.lock("k").wait(Duration::from_millis(500));
    let LockError::Unavailable { key, source } = request.acquire().await.unwrap_err() else { panic!() };
    assert_eq!(key.as_str(), "k");
    assert!(source.to_string().contains("of 3 servers"), "{source}");
    assert!(try_manager(servers.urls()).await.unwrap_err().is_unavailable());
    servers.0[0].start_again();
    servers.0[1].start_again();
}

impl Servers {
    /// Three of five servers lose their data.
    fn empty_a_majority(&mut self) {
        for server in &mut self.0[..3] {
            server.kill();
            server.start_again();
        }
    }

    /// Repeats a request until enough servers count.
    async fn acquire_at_last(&self, request: impl Fn(&LockManager) -> LockRequest) -> Guard {
        let start = Instant::now();
        loop {
            // Each manager reports after three seconds at the latest that servers are unreachable.
            match request(&self.manager().await).wait(LONG).acquire().await {
                Ok(guard) => return guard,
                Err(error) => assert!(error.is_unavailable() && start.elapsed() < LONG, "{error}"),
            }
        }
    }
}

/// Three of five servers forget a lock. No other process gets it, because these servers do not count for the longest
/// ttl.
#[tokio::test]
async fn servers_that_come_back_empty_do_not_count_for_the_longest_ttl() {
    let mut servers = Servers::start(5);
    let manager = servers.manager().await;
    // Longer than the test takes on any machine.
    let guard = manager.lock("k").ttl(LONG * 3).no_renew().acquire().await.unwrap();
    wait_until("every server has it", LONG, || servers.with_key("k") == 5);
    servers.empty_a_majority();
    // A manager that knew the servers before, and a new one.
    for other in [&servers.manager().await, &manager] {
        let start = Instant::now();
        loop {
            let request = other.lock("other").wait(Duration::from_millis(300));
            let error = request.acquire().await.unwrap_err();
            if matches!(&error, LockError::Unavailable { source, .. } if source.to_string().contains("restarted"))
            {
                break;
            }
            // On a busy machine a server may not have answered within the wait.
            assert!(start.elapsed() < LONG, "{error}");
        }
    }
    assert!(guard.is_held());
}

#[tokio::test]
async fn servers_that_came_back_empty_count_when_the_longest_ttl_is_over() {
    let mut servers = Servers::start(5);
    let manager = servers.manager().await;
    let guard = manager.lock("k").no_renew().acquire().await.unwrap();
    wait_until("every server has it", LONG, || servers.with_key("k") == 5 || !guard.is_held());
    servers.empty_a_majority();
    drop(guard);
    servers.acquire_at_last(|manager| manager.lock("k")).await.release().await.unwrap();
}

/// The two servers that know the last tokens are gone: one is down, and the other one has lost its data. These tokens
/// are of a process whose clock is fast.
#[tokio::test]
async fn tokens_rise_although_no_server_that_is_left_knows_the_last_ones() {
    let mut servers = Servers::start(3);
    let manager = servers.manager().await;
    let guard = manager.lock("k").fenced().acquire().await.unwrap();
    let last = guard.fencing_token().unwrap().get() + 30_000_000;
    guard.release().await.unwrap();
    drop(manager);
    for server in &mut servers.0[..2] {
        server.run_words::<()>(&["SET", "dl1:f", &last.to_string()]);
        server.kill();
    }
    servers.0[1].start_again();
    let guard = servers.acquire_at_last(|manager| manager.lock("k").fenced()).await;
    let token = guard.fencing_token().unwrap().get();
    assert!(token > last, "{token} after {last}");
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let mut servers = Servers::start(2);
    servers.0.push(TestServer::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]));
    let text = refused(try_manager(servers.urls()).await);
    assert!(text.contains("`allkeys-lru`") && text.contains("noeviction"), "{text}");
}

/// Two of five servers have a lock of another program with the same name, which then ends. The holder soon has the lock
/// on all five, without any renewal.
#[tokio::test]
async fn a_bare_majority_is_repaired_without_renewals() {
    let servers = Servers::start(5);
    for server in &servers.0[..2] {
        server.run::<String>("SET k somebody-else");
    }
    let manager = servers.manager().await;
    let guard = manager.lock("k").no_renew().ttl(LONG).fenced().acquire().await.unwrap();
    for server in &servers.0[..2] {
        assert_eq!(server.run::<String>("GET k"), "somebody-else");
        server.run::<u64>("DEL k");
    }
    wait_until("every server has it", LONG, || {
        let held = |server: &TestServer| {
            server.run::<Option<String>>("GET k").is_some_and(|text| text.contains("dl1:"))
        };
        servers.0.iter().all(held)
    });
    let last = guard.fencing_token().unwrap().get();
    // A repair first acquires the lock, and then sends the token.
    wait_until("every server knows its token", LONG, || {
        let knows = |server: &TestServer| server.run::<Option<u64>>("GET dl1:f").is_some_and(|it| it >= last);
        servers.0.iter().all(knows)
    });
    // The lease does not outlast the time for which the lock may be held.
    for server in &servers.0 {
        assert!(server.run::<i64>("PTTL k") <= 20_000);
    }
    guard.release().await.unwrap();
    wait_until("no server has it", LONG, || servers.with_key("k") == 0);
}

/// The lock is on three of five servers. The data of one of them is deleted without a restart.
#[tokio::test]
async fn what_was_flushed_does_not_count() {
    let mut servers = Servers::start(5);
    let (holder, other) = (servers.manager().await, servers.manager().await);
    servers.0[3].kill();
    servers.0[4].kill();
    let guard = holder.lock("k").ttl(LONG * 3).no_renew().acquire().await.unwrap();
    servers.0[0].run::<String>("FLUSHALL");
    servers.0[3].start_again();
    servers.0[4].start_again();
    wait_until("those that were killed have it again", LONG, || {
        servers.0[3..].iter().all(|server| server.run::<bool>("EXISTS k"))
    });
    wait_until("what was flushed has it again", LONG, || servers.0[0].run::<bool>("EXISTS k"));
    for manager in [&other, &servers.manager().await] {
        assert!(manager.lock("k").try_acquire().await.unwrap().is_none());
    }
    assert!(guard.is_held());
}

/// A process that knows only short leases attests no server before the longest lease has expired.
#[tokio::test]
async fn the_longest_ttl_is_noted_on_the_servers() {
    let servers = Servers::start(3);
    let manager = servers.manager().await;
    let guard = manager.lock("k").ttl(LONG * 3).acquire().await.unwrap();
    wait_until("every server has noted it", LONG, || {
        servers.0.iter().all(|server| server.try_run("GET dl1:run:ttl") == Some(60_000_u64))
    });
    drop(guard);
    drop(servers.manager().await.lock("k2").acquire().await.unwrap());
    for server in &servers.0 {
        assert_eq!(server.run::<u64>("GET dl1:run:ttl"), 60_000);
    }
}

/// Ignores what is reported.
struct Deaf;

impl Events for Deaf {
    fn link(&self, _: LinkEvent) {}

    fn push(&self, _: Push) {}
}

fn quorum_of(urls: &[String]) -> Arc<QuorumBackend> {
    let configs = urls.iter().map(|url| RedisConfig::new(url, "a").unwrap()).collect();
    QuorumBackend::new(configs, TTL).unwrap()
}

/// After a panic, the driver calls `run` again.
#[tokio::test]
async fn a_quorum_can_be_run_again() {
    let servers = Servers::start(3);
    let quorum = quorum_of(&servers.urls());
    for run in 1..=2 {
        let working = async {
            let set = op::TryAcquire { token: Token(run), ttl: TTL };
            let key: Arc<str> = format!("k{run}").into();
            eventually("the key is acquired", async || match quorum.send_acquire(&key, set.into()) {
                Sending::Ready(result) => result.is_ok(),
                Sending::Pending(result) => result.await.is_ok(),
            })
            .await;
            // A renewal that is not decided yet delays no other one.
            let kind = LockKind::Exclusive;
            let renew = op::Renew { token: Token(run), kind, ttl: TTL, last: false };
            assert_eq!(quorum.send_renew_all(vec![(key.clone(), renew), (key, renew)]).len(), 2);
        };
        tokio::select! {
            () = quorum.clone().run(Arc::new(Deaf)) => unreachable!("a backend runs without end"),
            () = working => {}
        }
    }
}

/// The first time that it is asked who this process is, it panics.
struct PanicsOnce(AtomicBool);

impl Events for PanicsOnce {
    fn link(&self, _: LinkEvent) {}

    fn push(&self, _: Push) {}

    fn who(&self) -> Option<Who> {
        assert!(self.0.swap(true, Ordering::SeqCst), "the task of a server panics on purpose");
        None
    }
}

#[tokio::test]
async fn a_panic_of_one_servers_task_is_a_panic_of_the_quorum() {
    let servers = Servers::start(3);
    let (quorum, events) = (quorum_of(&servers.urls()), Arc::new(PanicsOnce(AtomicBool::new(false))));
    let first = tokio::spawn(quorum.clone().run(events.clone()));
    let ended = tokio::time::timeout(LONG, first).await.expect("the panic is noticed");
    assert!(ended.unwrap_err().is_panic());
    let again = tokio::spawn(quorum.clone().run(events));
    eventually("all servers are connected", async || {
        for node in &quorum.nodes {
            if node.origin().await.is_err() {
                return false;
            }
        }
        true
    })
    .await;
    again.abort();
}

#[tokio::test]
async fn a_link_that_was_lost_before_the_servers_reply_is_not_reported_later() {
    let server = TestServer::start(&[]);
    let node = RedisBackend::new(RedisConfig::new(&server.url(), "a").unwrap()).unwrap();
    let running = tokio::spawn(node.clone().run(Arc::new(Deaf)));
    eventually("the server replies", async || node.origin().await.is_ok()).await;
    let (inbox, mut outbox) = mpsc::unbounded_channel();
    let events = MemberEvents { at: 0, node, inbox, events: Arc::new(Deaf), changes: Arc::default() };
    let up = LinkEvent::Up { earlier: EarlierCommands::Ended, pushes: Notifications::On };
    events.link(up.clone());
    events.link(LinkEvent::Down { cause: StoreError::new(Failure::Unknown, "the connection broke") });
    events.link(up);
    drop(events);
    let mut seen = Vec::new();
    while let Some(input) = outbox.recv().await {
        seen.push(matches!(input, Input::Joined { .. }));
    }
    assert_eq!(seen, [false, true], "lost, and joined again");
    running.abort();
}

/// Only one of the three servers runs, and it has the lock.
#[tokio::test]
async fn a_forced_release_needs_a_majority_or_says_that_it_may_have_been_applied() {
    let server = TestServer::start(&[]);
    let dead = |port: u16| format!("redis://127.0.0.1:{port}");
    let quorum = quorum_of(&[server.url(), dead(1), dead(2)]);
    let running = tokio::spawn(quorum.clone().run(Arc::new(Deaf)));
    let (key, owner): (Arc<str>, Arc<str>) = ("k".into(), "dl1:other:1".into());
    let lock = || server.run::<()>(&format!("SET {key} {owner}"));
    lock();
    eventually("one server replies", async || {
        let looks = quorum.nodes.iter().map(|node| node.inspect(&key));
        for look in looks.collect::<Vec<_>>() {
            if look.await.is_ok() {
                return true;
            }
        }
        false
    })
    .await;
    let released = || [quorum.force_release(&key), quorum.force_release_from(&key, &owner)];
    for released in released() {
        assert_eq!(released.await.unwrap_err().kind, Failure::NotSent);
    }
    assert!(server.run::<bool>(&format!("EXISTS {key}")), "nothing was done");
    // As if the other servers had been lost a moment ago.
    for at in 0..2 {
        lock();
        quorum.up.store(true, Ordering::Release);
        let released = released().into_iter().nth(at).unwrap();
        assert_eq!(released.await.unwrap_err().kind, Failure::Unknown);
    }
    running.abort();
}

#[tokio::test]
async fn a_leader_holds_only_the_lock_of_its_office() {
    let servers = Servers::start(3);
    let manager = servers.manager().await;
    let (candidate, began) = (manager.leader("office"), Notify::new());
    let leads = candidate.run(async |lead| {
        began.notify_one();
        lead.closing().await;
    });
    let stops = async {
        began.notified().await;
        manager.shutdown(LONG).await
    };
    let (led, report) = tokio::join!(leads, stops);
    led.unwrap();
    assert_eq!((report.held, report.lost), (1, 0));
}

#[tokio::test]
async fn a_server_that_refused_the_first_question_is_asked_again() {
    let servers = Servers::start(3);
    servers.0[0].run::<()>("ACL SETUSER default -time");
    let manager = LockManager::builder().quorum(servers.urls()).default_ttl(TTL).connect_lazy().unwrap();
    let error = manager.lock("k").wait(LONG).acquire().await.unwrap_err();
    assert!(error.to_string().contains("+time"), "{error}");
    servers.0[0].run::<()>("ACL SETUSER default +time");
    eventually("the server is asked again", async || manager.lock("k").try_acquire().await.is_ok()).await;
}

async fn eventually(what: &str, happens: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !happens().await {
        assert!(began.elapsed() < LONG, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
