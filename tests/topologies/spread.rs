//! The effect of more servers on hand-offs: their number in a second, the servers' CPU time for each, and the number of
//! messages between the nodes of a cluster. Prints the rows of a table in `docs/scale.md`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_tests::{ClusterServers, RedisServer, ShardServers};

use crate::load::turn;

/// Each manager has its own connections, like a separate process.
const MANAGERS: usize = 4;
/// A task of each manager always requests each of these keys.
const KEYS: usize = 96;
/// The number of sections before the measurement. After them, every manager has waited in the slot of every key.
const WARM_UP: u32 = 2_000;
const SECTIONS: u32 = 10_000;
/// Longer than any wait here.
const LONG: Duration = Duration::from_secs(60);

#[ignore = "a measurement, which takes a minute"]
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stdout)]
async fn spread() {
    let _turn = turn().await;
    println!(
        "| servers | hand-offs/s | CPU of all servers | CPU of the busiest server | messages between nodes |"
    );
    println!("|---|---|---|---|---|");
    for count in 1..=3 {
        let servers = ShardServers::of(count);
        let what = format!("`sharded+redis://`, {count}");
        println!("{}", row(&what, &servers.url(), servers.servers()).await);
    }
    for count in [3, 6] {
        let cluster = ClusterServers::of_masters(count);
        for server in cluster.servers() {
            let rules = "ACL SETUSER earlier on >pw ~* &* +@all -spublish -ssubscribe";
            server.raw(&rules.split(' ').collect::<Vec<_>>());
        }
        let earlier = cluster.url().replace("://", "://earlier:pw@");
        let what = format!("cluster, {count} masters, `PUBLISH`");
        println!("{}", row(&what, &earlier, cluster.servers()).await);
        let what = format!("cluster, {count} masters, `SPUBLISH`");
        println!("{}", row(&what, &cluster.url(), cluster.servers()).await);
    }
}

async fn row(what: &str, url: &str, servers: &[RedisServer]) -> String {
    let mut managers = Vec::new();
    for _ in 0..MANAGERS {
        managers.push(LockManager::connect(url).await.unwrap());
    }
    contend(&managers, WARM_UP).await;
    let before: Vec<_> = servers.iter().map(|server| (cpu(server), sent(server))).collect();
    let took = contend(&managers, SECTIONS).await;
    let (mut all, mut busiest, mut messages) = (0.0, 0.0_f64, 0.0);
    for (server, (cpu_before, sent_before)) in servers.iter().zip(before) {
        let used = cpu(server) - cpu_before;
        all += used;
        busiest = busiest.max(used);
        messages += sent(server) - sent_before;
    }
    let sections = f64::from(SECTIONS);
    format!(
        "| {what} | {:.0} | {:.1} µs | {:.1} µs | {:.2} |",
        sections / took.as_secs_f64(),
        all / sections * 1e6,
        busiest / sections * 1e6,
        messages / sections,
    )
}

/// Every manager requests every key until there were this many sections. Returns the duration.
async fn contend(managers: &[LockManager], sections: u32) -> Duration {
    let (begun, start) = (Arc::new(AtomicU32::new(0)), Instant::now());
    let tasks: Vec<_> = managers
        .iter()
        .flat_map(|manager| (0..KEYS).map(|key| (manager.clone(), format!("spread:{key}"))))
        .map(|(manager, key)| {
            let begun = Arc::clone(&begun);
            tokio::spawn(async move {
                while begun.fetch_add(1, Ordering::Relaxed) < sections {
                    let guard = manager.lock(&*key).wait(LONG).acquire().await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

/// The CPU time of the server, in seconds.
fn cpu(server: &RedisServer) -> f64 {
    ["used_cpu_user", "used_cpu_sys"].iter().map(|field| server.info(field).parse::<f64>().unwrap()).sum()
}

/// Pushes that a node of a cluster has sent to others.
fn sent(server: &RedisServer) -> f64 {
    let info = server.try_run::<String>("CLUSTER INFO").unwrap_or_default();
    let of = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("_sent:"));
        line.map_or(0.0, |count| count.trim().parse::<f64>().unwrap())
    };
    of("cluster_stats_messages_publish") + of("cluster_stats_messages_publishshard")
}
