//! A cluster of real processes.

use distlock_fixtures::ClusterServers;

use super::slots::slot_of;
use super::test_server::{Rig, Seen, TestServer};
use super::{ClusterBackend, RedisConfig};
use crate::backend::{EarlierCommands, LinkEvent, Notifications};

/// Three masters, and a replica of the first.
pub(super) struct Cluster {
    pub(super) servers: Vec<TestServer>,
    pub(super) ids: Vec<String>,
}

pub(super) const MASTERS: usize = 3;
pub(super) const REPLICA: usize = 3;
/// First slots of the masters.
pub(super) const FIRST: [u16; 4] = [0, 5461, 10923, 16384];

impl From<ClusterServers> for Cluster {
    fn from(cluster: ClusterServers) -> Self {
        let (ids, servers) = cluster.into_parts();
        Cluster { servers: servers.into_iter().map(TestServer::from).collect(), ids }
    }
}

impl Cluster {
    pub(super) fn start() -> Cluster {
        ClusterServers::start().into()
    }

    /// Nodes that speak TLS too, and to each other only that.
    pub(super) fn start_over_tls(directives: &[String]) -> Cluster {
        ClusterServers::start_over_tls(directives).into()
    }

    pub(super) fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        format!("redis+cluster://{}", hosts[..2].join(","))
    }

    pub(super) fn tls_url(&self) -> String {
        format!(
            "rediss+cluster://127.0.0.1:{},127.0.0.1:{}",
            self.servers[0].tls_port(),
            self.servers[1].tls_port()
        )
    }

    pub(super) fn start_rig(&self, client: &str) -> Rig<ClusterBackend> {
        let config = RedisConfig::new(&self.url(), client).unwrap();
        Rig::run(ClusterBackend::new(config).unwrap())
    }

    pub(super) fn rig(&self, client: &str) -> Rig<ClusterBackend> {
        let rig = self.start_rig(client);
        let (earlier, pushes) = rig.wait_until_up();
        assert_eq!(earlier, EarlierCommands::Ended);
        // A busy machine may be slow to subscribe.
        if pushes == Notifications::Off {
            rig.wait_for("pushes", |seen| {
                matches!(seen, Seen::Link(LinkEvent::Notifications(Notifications::On))).then_some(())
            });
        }
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
        let mut keys: Vec<String> = self.masters().iter().flat_map(|server| server.keys()).collect();
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
