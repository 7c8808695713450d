//! Three primaries, one of them with a replica. Slots move between them.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use distlock_tests::{ClusterServers, Proxy, RedisServer, eventually_blocking};
use fastrand::Rng;

use super::{Harm, Lane, Servers, redis, sleep};

/// Shorter than the silence after which the nodes treat a node as dead.
const SILENCE_MS: u64 = 600;
/// Keys whose slots are moved.
const WANDERING: [&str; 8] = ["hot:0", "hot:1", "attr:0", "attr:1", "part:0", "rw:0", "limit:2:0", "kept:0"];
const MASTERS: usize = 3;
const FAILOVER: [&str; 2] = ["CLUSTER", "FAILOVER"];
/// A node gives up a fail-over that takes longer, as on a busy machine.
const GIVES_UP_AFTER: Duration = Duration::from_secs(5);
const FIRST_SLOTS: [u16; MASTERS] = [0, 5461, 10923];

pub(crate) struct Cluster {
    cluster: ClusterServers,
    /// The present server of each primary. The first one and its replica change roles.
    primaries: [usize; MASTERS],
    replica: usize,
    /// The primary of each slot that was moved.
    moved: HashMap<u16, usize>,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let cluster = ClusterServers::start();
        Cluster { cluster, primaries: [0, 1, 2], replica: 3, moved: HashMap::new() }
    }

    /// Executes a fault. Returns whether there was a fail-over without a command.
    fn strike(&mut self, rng: &mut Rng) -> Harm {
        if self.heal() == Harm::MayForget {
            return Harm::MayForget;
        }
        let harm = self.draw(rng);
        if self.heal() == Harm::MayForget { Harm::MayForget } else { harm }
    }

    fn draw(&mut self, rng: &mut Rng) -> Harm {
        match rng.u32(..20) {
            0 => {
                let first = self.primaries[0];
                self.cluster.servers_mut()[first].kill9();
                self.wait_for_the_replica();
                self.cluster.servers_mut()[first].restart();
                self.settle();
            }
            1 => {
                self.server(0).stop();
                sleep(rng, 1_500..3_500);
                self.server(0).cont();
                self.settle();
            }
            2 => {
                // No data is lost, because the replica takes over after it has received all data.
                if self.cluster.servers()[self.replica].try_raw(&FAILOVER).is_ok() {
                    self.wait_for_the_replica();
                }
                self.settle();
                return Harm::None;
            }
            3..12 => {
                self.move_slot(rng);
                return Harm::None;
            }
            _ => return redis::disturb(self.server(rng.usize(..MASTERS)), rng, SILENCE_MS),
        }
        Harm::MayForget
    }

    fn server(&self, primary: usize) -> &RedisServer {
        &self.cluster.servers()[self.primaries[primary]]
    }

    fn wait_for_the_replica(&mut self) {
        let replica = &self.cluster.servers()[self.replica];
        let mut asked = Instant::now();
        eventually_blocking("the replica is a primary", || {
            if asked.elapsed() > GIVES_UP_AFTER {
                // Refused if its primary is dead.
                drop(replica.try_raw(&FAILOVER));
                asked = Instant::now();
            }
            replica.info("role") == "master"
        });
        std::mem::swap(&mut self.primaries[0], &mut self.replica);
    }

    /// Waits until the cluster is complete, and one of the first two servers follows the other. Records which one.
    fn settle(&mut self) {
        let pair = [self.primaries[0], self.replica];
        let mut follows = 0;
        eventually_blocking("the cluster is whole", || {
            let replicas: Vec<usize> = pair.into_iter().filter(|&at| self.is_following(at)).collect();
            let whole = self.cluster.servers().iter().all(|one| {
                let info = one.try_raw(&["CLUSTER", "INFO"]).ok();
                info.and_then(|info| ::redis::from_redis_value::<String>(info).ok())
                    .is_some_and(|info| info.contains("cluster_state:ok"))
            });
            follows = *replicas.first().unwrap_or(&usize::MAX);
            whole && replicas.len() == 1
        });
        if follows == self.primaries[0] {
            std::mem::swap(&mut self.primaries[0], &mut self.replica);
        }
    }

    fn is_following(&self, at: usize) -> bool {
        let server = &self.cluster.servers()[at];
        server.info("role") == "slave" && server.info("master_link_status") == "up"
    }

    /// In the same way as `redis-cli --cluster reshard`, and with its time-outs.
    fn move_slot(&mut self, rng: &mut Rng) {
        let slot = self.cluster.slot_of(WANDERING[rng.usize(..WANDERING.len())]);
        let by_range = FIRST_SLOTS.iter().rposition(|first| *first <= slot).unwrap();
        let from = *self.moved.get(&slot).unwrap_or(&by_range);
        let to = (from + rng.usize(1..MASTERS)) % MASTERS;
        let (source, target) = (self.server(from), self.server(to));
        let (number, port) = (slot.to_string(), target.port().to_string());
        let set = |at: &RedisServer, rest: &[&str]| {
            let command = [&["CLUSTER", "SETSLOT", &number], rest].concat();
            eventually_blocking("a slot is set", || at.try_raw(&command).is_ok());
        };
        let (from_id, to_id) = (source.text(&["CLUSTER", "MYID"]), target.text(&["CLUSTER", "MYID"]));
        set(target, &["IMPORTING", &from_id]);
        set(source, &["MIGRATING", &to_id]);
        eventually_blocking("the slot is empty", || {
            let keys: Vec<String> =
                ::redis::from_redis_value(source.raw(&["CLUSTER", "GETKEYSINSLOT", &number, "100"])).unwrap();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            keys.is_empty() || {
                // A key that has just expired causes an error, which is ignored.
                source.try_raw(&migrate).ok();
                false
            }
        });
        for primary in [to, from].into_iter().chain((0..MASTERS).filter(|at| *at != to && *at != from)) {
            set(self.server(primary), &["NODE", &to_id]);
        }
        self.moved.insert(slot, to);
    }
}

impl Servers for Cluster {
    fn urls(&self) -> Vec<String> {
        vec![self.cluster.url()]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        Vec::new()
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        vec![Box::new(|rng| self.strike(rng))]
    }

    fn heal(&mut self) -> Harm {
        let known = self.primaries[0];
        self.settle();
        if self.primaries[0] == known { Harm::None } else { Harm::MayForget }
    }

    fn residue(&self) -> Vec<String> {
        redis::residue((0..MASTERS).map(|primary| self.server(primary)))
    }
}
