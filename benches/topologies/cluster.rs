//! A cluster of three masters, compared with one server.
//!
//! A client that uses three servers in turn finds each of them asleep, on its last core. A client that uses one server
//! finds it awake, and its own thread on a good core. This cost has nothing to do with a cluster: three separate
//! servers with one manager each show it, too, and so does the raw loop.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use distlock_benches::Result;
use distlock_benches::cluster::{Cluster, MASTERS};
use distlock_benches::contenders::{Distlock, Locks, Raw};
use distlock_benches::options::Length;
use distlock_benches::processes::{self, Plan};
use distlock_benches::rounds::{Contender, Extent, Rounds};
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, Verdicts, say};

/// Each node serves a third of them, and neighbours are on different nodes.
const KEYS: usize = 999;

struct Keys {
    spread: Arc<[String]>,
    /// The keys that the first node serves, repeated to get the same number.
    of_one_node: Arc<[String]>,
}

impl Keys {
    fn choose(cluster: &Cluster) -> Result<Keys> {
        let candidates: Vec<String> = (0..KEYS * 2).map(|at| format!("bench:{at}")).collect();
        let mut of_nodes = vec![Vec::new(); MASTERS];
        for (key, place) in candidates.iter().zip(cluster.places(&candidates)?) {
            of_nodes[place].push(key.clone());
        }
        let share = KEYS / MASTERS;
        if of_nodes.iter().any(|keys| keys.len() < share) {
            return Err("the keys are not spread evenly".into());
        }
        Ok(Keys {
            spread: (0..KEYS).map(|at| of_nodes[at % MASTERS][at / MASTERS].clone()).collect(),
            of_one_node: of_nodes[0][..share].into(),
        })
    }
}

/// Connects to each of `urls`. The n-th lock is acquired on the n-th of them.
async fn in_turn<L: Locks>(name: &str, urls: &[String], keys: &Arc<[String]>) -> Result<Contender> {
    let mut all = Vec::new();
    for url in urls {
        all.push(L::connect(url).await?);
    }
    let (all, keys): (Arc<[L]>, _) = (all.into(), Arc::clone(keys));
    Ok(Contender::new(name, move |at| {
        let (locks, keys) = (all[at % all.len()].clone(), Arc::clone(&keys));
        async move { L::release(locks.acquire(&keys[at % keys.len()]).await?).await }
    }))
}

pub(super) async fn uncontended(
    cluster: &Cluster,
    alone: &Server,
    length: Length,
    verdicts: &mut Verdicts,
) -> Result<()> {
    say("a cluster of three masters, uncontended …");
    let keys = Keys::choose(cluster)?;
    let node_urls: Vec<String> = cluster.servers().iter().map(Server::url).collect();
    let (spread, of_one_node) = (&keys.spread, &keys.of_one_node);
    let (one_url, cluster_url) = ([alone.url()], [cluster.url()]);
    let separate = [Server::start(), Server::start(), Server::start()];
    let separate_urls = separate.each_ref().map(Server::url);
    let connect = async || {
        Ok(vec![
            in_turn::<Distlock>("distlock, one server", &one_url, spread).await?,
            in_turn::<Distlock>("distlock, cluster, keys of one node", &cluster_url, of_one_node).await?,
            in_turn::<Distlock>("distlock, cluster, keys of all nodes in turn", &cluster_url, spread).await?,
            in_turn::<Distlock>("distlock, three separate servers in turn", &separate_urls, spread).await?,
            in_turn::<Raw>("raw, one server", &one_url, spread).await?,
            in_turn::<Raw>("raw, one node of the cluster", &node_urls[..1], of_one_node).await?,
            in_turn::<Raw>("raw, all nodes of the cluster in turn", &node_urls, spread).await?,
            in_turn::<Raw>("raw, three separate servers in turn", &separate_urls, spread).await?,
        ])
    };
    let extent = Extent { rounds: length.pick(51, 9), turns: length.pick(16, 10) };
    let rounds = Rounds::run(extent, connect).await?;
    let mut table = Table::new(&["uncontended", "p50", "÷ one server", "÷ raw in the same place"]);
    for (at, name) in rounds.names().iter().enumerate() {
        let (one_server, raw) = if at < 4 { (0, at + 4) } else { (4, at) };
        table.row([
            name.clone(),
            micros(rounds.p50(at)),
            format!("{:.2}", rounds.ratio(at, one_server)),
            format!("{:.2}", rounds.ratio(at, raw)),
        ]);
    }
    table.print("A cluster of three masters");
    verdicts.at_most("cluster, keys of one node: p50 ÷ one server", rounds.ratio(1, 0), 1.2);
    verdicts.at_most("cluster, keys of all nodes: p50 ÷ one server", rounds.ratio(2, 0), 1.2);
    verdicts.at_most("cluster, keys of all nodes: p50 ÷ three separate servers", rounds.ratio(2, 3), 1.2);
    verdicts.at_most("cluster, keys of all nodes: p50 ÷ raw on all nodes", rounds.ratio(2, 6), 1.2);
    Ok(())
}

/// Eight processes on one key.
pub(super) fn hand_off(
    cluster: &Cluster,
    alone: &Server,
    length: Length,
    verdicts: &mut Verdicts,
) -> Result<()> {
    const PROCESSES: usize = 8;
    say("a cluster of three masters, eight processes on one key …");
    let span = length.pick(Duration::from_secs(8), Duration::from_secs(1));
    let (cluster_url, alone_url) = (cluster.url(), alone.url());
    let mut table = Table::new(&[
        "8 processes on one key",
        "commands per section",
        "hand-off p50, p99 in PINGs",
        "p50",
        "longest wait ÷ mean",
        "fairness",
    ]);
    let mut p50s = Vec::new();
    for (place, url, servers) in
        [("one server", &alone_url, slice::from_ref(alone)), ("cluster", &cluster_url, cluster.servers())]
    {
        let plan = Plan { url, servers, name: Distlock::NAME, processes: PROCESSES, span };
        let figures = processes::run(&plan)?;
        table.row([
            place.to_owned(),
            format!("{:.2}", figures.commands),
            format!("{:.1}, {:.1}", figures.p50_in_pings(), figures.p99_in_pings()),
            micros(figures.p50 as f64),
            format!("{:.1}", figures.longest_wait_to_mean),
            format!("{:.3}", figures.fairness),
        ]);
        if place == "cluster" {
            verdicts.at_most("cluster, 8 processes: commands per section", figures.commands, 2.3);
            verdicts.at_least("cluster, 8 processes: fairness (Jain)", figures.fairness, 0.99);
        }
        p50s.push(figures.p50 as f64);
    }
    table.print("Several processes, one key, hold 0.5 ms, think 1 ms");
    if let [one, cluster] = p50s[..] {
        say(format!("hand-off p50 in the cluster ÷ on one server: {:.2}", cluster / one));
    }
    Ok(())
}
