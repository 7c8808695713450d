//! A cluster of real processes.

use super::slots::slot_of;
use super::test_server::{LONG, Rig, TestServer, free_port, wait_until};
use super::{ClusterBackend, RedisConfig};
use crate::backend::Pushes;

/// Three masters, and a replica of the first.
pub(super) struct Cluster {
    pub(super) servers: Vec<TestServer>,
    pub(super) ids: Vec<String>,
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only the tests over TLS ask for them"))]
    tls_ports: Vec<u16>,
}

pub(super) const MASTERS: usize = 3;
pub(super) const REPLICA: usize = 3;
/// First slots of the masters.
pub(super) const FIRST: [u16; 4] = [0, 5461, 10923, 16384];

impl Cluster {
    pub(super) fn start() -> Cluster {
        Cluster::with(&[])
    }

    /// `tls`: options and values in turn, of nodes that speak TLS too, and to each other only that.
    pub(super) fn with(tls: &[String]) -> Cluster {
        let (mut servers, mut buses, mut tls_ports) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..=MASTERS {
            let chosen = std::cell::Cell::new((0, 0));
            servers.push(TestServer::start_with(|| {
                chosen.set((free_port(), free_port()));
                let (bus, tls_port) = (chosen.get().0.to_string(), chosen.get().1.to_string());
                let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
                let more = ["--cluster-port", &bus, "--repl-diskless-sync-delay", "0"];
                let over_tls = ["--tls-port", &tls_port, "--tls-cluster", "yes", "--tls-replication", "yes"];
                let mut args: Vec<String> = args.iter().chain(&more).map(|&arg| arg.to_owned()).collect();
                if !tls.is_empty() {
                    args.extend(over_tls.map(str::to_owned));
                    args.extend(tls.iter().cloned());
                }
                args
            }));
            buses.push(chosen.get().0);
            tls_ports.push(chosen.get().1);
        }
        let known_at = if tls.is_empty() { servers[0].port } else { tls_ports[0] };
        let mut ids = Vec::new();
        for (at, server) in servers.iter().enumerate() {
            server.run::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
            if at < MASTERS {
                server.run::<()>(&format!("CLUSTER ADDSLOTSRANGE {} {}", FIRST[at], FIRST[at + 1] - 1));
            }
            server.run::<()>(&format!("CLUSTER MEET 127.0.0.1 {known_at} {}", buses[0]));
            ids.push(server.run::<String>("CLUSTER MYID"));
        }
        let cluster = Cluster { servers, ids, tls_ports };
        cluster.wait_until("every node knows the others", |info| info.contains("cluster_known_nodes:4"));
        let replica = &cluster.servers[REPLICA];
        wait_until("the replica may follow", LONG, || {
            let command = format!("CLUSTER REPLICATE {}", cluster.ids[0]);
            let mut words = redis::Cmd::new();
            words.arg(command.split(' ').collect::<Vec<_>>());
            words.query::<()>(&mut replica.connection()).is_ok()
        });
        cluster.wait_until("the cluster is up", |info| info.contains("cluster_state:ok"));
        wait_until("the replica is known and up to date", LONG, || {
            let known =
                cluster.servers.iter().all(|server| server.run::<String>("CLUSTER NODES").contains("slave"));
            known && replica.run::<String>("INFO replication").contains("master_link_status:up")
        });
        cluster
    }

    pub(super) fn wait_until(&self, what: &str, done: impl Fn(&str) -> bool) {
        wait_until(what, LONG, || {
            self.servers.iter().all(|server| done(&server.run::<String>("CLUSTER INFO")))
        });
    }

    pub(super) fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        format!("redis+cluster://{}", hosts[..2].join(","))
    }

    #[cfg(feature = "tls")]
    pub(super) fn tls_url(&self) -> String {
        format!("rediss+cluster://127.0.0.1:{},127.0.0.1:{}", self.tls_ports[0], self.tls_ports[1])
    }

    pub(super) fn start_rig(&self, client: &str) -> Rig<ClusterBackend> {
        let config = RedisConfig::new(&self.url(), client).unwrap();
        Rig::run(ClusterBackend::new(config).unwrap())
    }

    pub(super) fn rig(&self, client: &str) -> Rig<ClusterBackend> {
        let rig = self.start_rig(client);
        assert_eq!(rig.wait_until_up(), (true, Pushes::On));
        rig
    }

    /// The master that serves `key` at first.
    pub(super) fn home(&self, key: &str) -> usize {
        let slot = slot_of("", key);
        (0..MASTERS).find(|at| slot < FIRST[at + 1]).unwrap()
    }

    /// A key served by the master at `at`.
    pub(super) fn key_at(&self, at: usize) -> String {
        (0..).map(|number| format!("k{number}")).find(|key| self.home(key) == at).unwrap()
    }

    pub(super) fn masters(&self) -> &[TestServer] {
        &self.servers[..MASTERS]
    }

    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> =
            self.masters().iter().flat_map(|server| server.run::<Vec<String>>("KEYS *")).collect();
        keys.sort();
        keys
    }

    pub(super) fn begin_to_move(&self, slot: u16, from: usize, to: usize) {
        self.servers[to].run::<()>(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", self.ids[from]));
        self.servers[from].run::<()>(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", self.ids[to]));
    }

    pub(super) fn move_keys(&self, slot: u16, from: usize, to: usize) {
        loop {
            let keys: Vec<String> = self.servers[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            if keys.is_empty() {
                return;
            }
            let port = self.servers[to].port.to_string();
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            self.servers[from].run_words::<()>(&words);
        }
    }

    pub(super) fn end_to_move(&self, slot: u16, from: usize, to: usize) {
        for at in [to, from].into_iter().chain((0..MASTERS).filter(|at| *at != to && *at != from)) {
            self.servers[at].run::<()>(&format!("CLUSTER SETSLOT {slot} NODE {}", self.ids[to]));
        }
    }
}
