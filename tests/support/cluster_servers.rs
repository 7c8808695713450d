//! A cluster: three masters and a replica of the first.

use std::{sync::OnceLock, time::Duration};

use crate::{BOUND, RedisServer, eventually_blocking, keeper};

const MASTERS: usize = 3;
const REPLICA: usize = 3;
const NODES: usize = 4;
/// The first slots of the masters, and the end.
const FIRST_SLOTS: [u16; MASTERS + 1] = [0, 5461, 10923, 16384];

/// Real processes: three masters, and a replica of the first, which therefore is the one to kill.
#[derive(Debug)]
pub struct ClusterServers {
    servers: Vec<RedisServer>,
    ids: Vec<String>,
}

impl ClusterServers {
    /// A cluster of a test's own, which holds a node for dead after a second of silence.
    #[must_use]
    pub fn start() -> Self {
        Self::with(Duration::from_secs(1))
    }

    /// A cluster of a test's own that no load makes fail over.
    #[must_use]
    pub fn start_steady() -> Self {
        Self::with(BOUND * 2)
    }

    /// The cluster that all tests of this process share, and that none may harm. No load makes it fail over.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ClusterServers> = OnceLock::new();
        SHARED.get_or_init(|| {
            let cluster = Self::start_steady();
            keeper::end_with_this_process(&cluster.servers);
            cluster
        })
    }

    fn with(node_timeout: Duration) -> Self {
        let options = RedisServer::options().cluster_node(node_timeout);
        let servers: Vec<_> = (0..NODES).map(|_| options.clone().start()).collect();
        let ids = servers.iter().map(|server| server.text(&["CLUSTER", "MYID"])).collect();
        let cluster = Self { servers, ids };
        cluster.form();
        cluster
    }

    fn form(&self) {
        let first = &self.servers[0];
        let (port, bus) = (first.port().to_string(), first.bus_port().expect("a node").to_string());
        for (at, server) in self.servers.iter().enumerate() {
            server.raw(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
            if at < MASTERS {
                let range = [FIRST_SLOTS[at], FIRST_SLOTS[at + 1] - 1].map(|slot| slot.to_string());
                server.raw(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            }
            if at > 0 {
                server.raw(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
            }
        }
        let everywhere = |what: &str, done: &dyn Fn(&RedisServer) -> bool| {
            eventually_blocking(what, || self.servers.iter().all(done));
        };
        everywhere("every node knows the others", &|one| {
            one.text(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:4")
        });
        let replica = &self.servers[REPLICA];
        eventually_blocking("the replica may follow", || {
            replica.try_raw(&["CLUSTER", "REPLICATE", &self.ids[0]]).is_ok()
        });
        everywhere("the cluster is up", &|one| one.text(&["CLUSTER", "INFO"]).contains("cluster_state:ok"));
        everywhere("every node knows the replica", &|one| one.text(&["CLUSTER", "NODES"]).contains("slave"));
        eventually_blocking("the replica is up to date", || replica.info("master_link_status") == "up");
    }

    /// `redis+cluster://…`
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(RedisServer::address).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Three masters, and the replica of the first.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The nodes, to be killed and restarted.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// The masters, while nothing has failed over.
    #[must_use]
    pub fn masters(&self) -> &[RedisServer] {
        &self.servers[..MASTERS]
    }

    /// The master that has a replica.
    pub fn first_master(&mut self) -> &mut RedisServer {
        &mut self.servers[0]
    }

    /// A key that the master at this place serves at first.
    ///
    /// # Panics
    /// When there is no such master.
    #[must_use]
    pub fn key_at(&self, master: usize) -> String {
        let served = FIRST_SLOTS[master]..FIRST_SLOTS[master + 1];
        let key = (0..).map(|number| format!("k{number}")).find(|key| served.contains(&self.slot_of(key)));
        key.expect("an endless supply of keys")
    }

    /// The slot of a key.
    #[must_use]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.servers[REPLICA].raw(&["CLUSTER", "KEYSLOT", key]);
        redis::from_redis_value(slot).unwrap()
    }

    /// Tells clients and nodes to reach the server at this place through another port.
    ///
    /// # Panics
    /// When the news does not spread.
    pub fn announce(&self, at: usize, port: u16) {
        self.servers[at].raw(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]);
        let announced = format!("127.0.0.1:{port}@");
        eventually_blocking("every node announces the new port", || {
            self.servers.iter().all(|one| one.text(&["CLUSTER", "NODES"]).contains(&announced))
        });
    }

    /// Moves a slot with all that is in it from one master to another, as `redis-cli --cluster reshard` does.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        let number = slot.to_string();
        let (source, target) = (&self.servers[from], &self.servers[to]);
        target.raw(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &self.ids[from]]);
        source.raw(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &self.ids[to]]);
        loop {
            let keys: Vec<String> =
                redis::from_redis_value(source.raw(&["CLUSTER", "GETKEYSINSLOT", &number, "100"])).unwrap();
            if keys.is_empty() {
                break;
            }
            let port = target.port().to_string();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            source.raw(&migrate);
        }
        let others = (0..MASTERS).filter(|at| *at != to && *at != from);
        for at in [to, from].into_iter().chain(others) {
            self.servers[at].raw(&["CLUSTER", "SETSLOT", &number, "NODE", &self.ids[to]]);
        }
    }

    /// Waits until the replica has taken the place of its master.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_failed_over(&self) -> Duration {
        eventually_blocking("the replica is a master", || self.servers[REPLICA].info("role") == "master")
    }

    /// Waits until the first master follows its former replica.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_demoted(&self) {
        eventually_blocking("the old master follows the new one", || {
            self.servers[0].info("role") == "slave" && self.servers[0].info("master_link_status") == "up"
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_moves_with_its_keys_and_a_replica_takes_over() {
        let mut cluster = ClusterServers::start();
        let key = cluster.key_at(0);
        cluster.servers()[0].raw(&["SET", &key, "v"]);
        cluster.move_slot(cluster.slot_of(&key), 0, 1);
        assert_eq!(cluster.servers()[1].get(&key).as_deref(), Some("v"));
        cluster.first_master().kill9();
        cluster.wait_until_failed_over();
    }
}
