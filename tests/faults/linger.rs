//! A process keeps a lock between its sections, and then the process, its link or the server has a fault.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_tests::{Direction, LockClient, RedisServer, eventually, residue, until_waiting};

use super::net::{Net, net};
use super::{LONG, SOON, connect};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");
/// The maximum of the option.
const LINGER: Duration = Duration::from_secs(10);

/// A process that keeps `k` and is not in a section.
fn keeper(server: &RedisServer, ttl: u64) -> LockClient {
    let mut client = LockClient::connect(CLIENT, &server.url());
    assert_eq!(client.ask(&format!("acquire k {ttl} 0 linger")).name(), "acquired");
    assert_eq!(client.ask("release k").name(), "released");
    assert!(server.exists("k"), "it is kept");
    client
}

async fn lingers(manager: &LockManager, ttl: Duration) {
    manager.lock("k").ttl(ttl).linger(LINGER).run(async |_| ()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_gets_it_at_once_while_pushes_arrive() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let mut keeper = keeper(&server, 600_000);
    let start = Instant::now();
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < LINGER, "{:?}", start.elapsed());
    // And the other way round.
    lingers(&manager, LONG).await;
    let start = Instant::now();
    assert_eq!(keeper.ask("acquire k 600000 600000").name(), "acquired");
    assert!(start.elapsed() < LINGER, "{:?}", start.elapsed());
    assert_eq!(keeper.ask("release k").name(), "released");
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_keeper_delays_others_for_its_ttl_and_no_longer() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let mut keeper = keeper(&server, 3_000);
    keeper.kill9();
    let killed = Instant::now();
    residue::expires_within(&server, Duration::from_secs(3));
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    assert!(killed.elapsed() < SOON, "{:?}", killed.elapsed());
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_keeper_asks_again_when_it_goes_on() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let mut keeper = keeper(&server, 3_000);
    keeper.stop();
    let guard = manager.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap();
    keeper.cont();
    // Its lease has expired meanwhile, which only its clock can show.
    let busy = keeper.ask("acquire k 3000 0 linger");
    assert_eq!(busy.name(), "error", "{busy:?}");
    guard.check().expect("its late release was not ours");
    guard.release().await.unwrap();
    assert_eq!(keeper.ask("acquire k 3000 600000").name(), "acquired");
    assert_eq!(keeper.ask("release k").name(), "released");
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_is_cut_off_releases_over_a_new_connection() {
    let Net { server, proxy, manager } = net().await;
    lingers(&manager, LONG).await;
    assert!(server.exists("k"), "it is kept");
    let cut = Instant::now();
    proxy.cut();
    residue::none(&server).await;
    assert!(cut.elapsed() < LINGER, "{:?}", cut.elapsed());
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_behind_a_keeper_that_is_cut_off_gets_the_lock() {
    let Net { server, proxy, manager } = net().await;
    lingers(&manager, LONG).await;
    // Its connections break one after the other. If the connection for pushes is the first, it releases the lock over
    // the other one.
    proxy.swallow(Direction::Requests);
    proxy.refuse();
    assert!(server.exists("k"));
    let other = connect(&server).await;
    let observer = other.clone();
    let waiter = tokio::spawn(async move { other.lock("k").ttl(LONG).wait(LONG).acquire().await });
    until_waiting(&observer, "k", 1).await;
    proxy.pass();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_of_a_server_that_stands_still_uses_no_lease_that_is_over() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    lingers(&manager, Duration::from_secs(1)).await;
    server.stop();
    let stopped = Instant::now();
    eventually("the lease is not used any more", async || {
        let began = stopped.elapsed();
        match manager.lock("k").linger(LINGER).acquire().await {
            Err(error) => error.is_unavailable(),
            Ok(_) => {
                assert!(began < Duration::from_secs(1), "used {began:?} after the server was stopped");
                false
            }
        }
    })
    .await;
    server.cont();
    eventually("it works again", async || manager.lock("k").acquire().await.is_ok()).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_without_pushes_keeps_nothing() {
    let server = RedisServer::start();
    server.raw(&["ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe"]);
    let url = server.url().replace("redis://", "redis://deaf:pw@");
    let deaf = LockManager::connect(&url).await.unwrap();
    lingers(&deaf, LONG).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_every_push_lost_others_get_it_when_the_time_is_over() {
    let server = RedisServer::start();
    // All clients expect pushes, but no client has the permission to publish.
    server.raw(&["ACL", "SETUSER", "mute", "on", ">pw", "~*", "&*", "+@all", "-publish"]);
    let url = server.url().replace("redis://", "redis://mute:pw@");
    let linger = Duration::from_millis(500);
    let (one, other) = (LockManager::connect(&url).await.unwrap(), LockManager::connect(&url).await.unwrap());
    // The heartbeat of a waiter comes after two seconds. It asks before that, because a keeper may be late.
    let soon = Duration::from_millis(1_500);
    let mut waits: Vec<Duration> = Vec::new();
    // On a busy machine, some are late.
    while waits.iter().filter(|wait| **wait < soon).count() < 3 && waits.len() < 30 {
        let key = format!("k{}", waits.len());
        one.lock(&*key).ttl(LONG).linger(linger).run(async |_| ()).await.unwrap();
        let start = Instant::now();
        other.lock(&*key).ttl(LONG).wait(LONG).acquire().await.unwrap().release().await.unwrap();
        waits.push(start.elapsed());
    }
    println!("waits behind a keeper of {linger:?}: {waits:?}");
    assert!(waits.len() < 30, "{waits:?}");
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_polls_gets_it_when_the_time_is_over() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    manager.lock("k").ttl(LONG).linger(Duration::from_millis(300)).run(async |_| ()).await.unwrap();
    assert!(server.exists("k"), "it is kept");
    eventually("it is free", async || {
        let set: Option<String> =
            redis::from_redis_value(server.raw(&["SET", "k", "py", "NX", "PX", "60000"])).unwrap();
        set.is_some()
    })
    .await;
    server.raw(&["DEL", "k"]);
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_queues_and_asks_nobody_gets_it_when_the_time_is_over() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    manager.lock("k").ttl(LONG).linger(Duration::from_millis(300)).run(async |_| ()).await.unwrap();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    // Like the first release of this crate, whose script notifies no process.
    let files = [
        include_str!("../../distlock/src/backend/redis/scripts/clock.lua"),
        include_str!("../../distlock/src/backend/redis/scripts/queue.lua"),
        include_str!("../../distlock/src/backend/redis/scripts/enter.lua"),
    ];
    let script = redis::Script::new(&files.concat());
    let mut enter = |mode: &str| -> String {
        let mut call = script.prepare_invoke();
        for key in ["k", "dl1:q:k", "dl1:e:k", "dl1:f", "dl1:m:k"] {
            call.key(key);
        }
        for word in ["dl1:old:1", "60000", "3000", "10000", "0", mode] {
            call.arg(word);
        }
        let reply: Vec<redis::Value> = call.invoke(&mut connection).unwrap();
        redis::from_redis_value(reply[0].clone()).unwrap()
    };
    assert_eq!(enter("poll"), "BUSY");
    // It is granted, or is free for a moment, as for all clients that poll.
    eventually("it gets the lock", async || ["MINE", "FRESH"].contains(&&*enter("heldpoll"))).await;
    server.raw(&["DEL", "k"]);
    residue::none(&server).await;
}
