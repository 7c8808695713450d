//! A Redis Cluster of three masters on this machine.

use std::thread;
use std::time::{Duration, Instant};

use distlock_fixtures::RedisServer;

use crate::Result;
use crate::server::Server;

/// The number of masters.
pub const MASTERS: usize = 3;
const SLOTS: u16 = 16_384;

/// The masters. They are killed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Server>,
    /// The first slot of each master.
    firsts: Vec<u16>,
}

impl Cluster {
    /// Starts the cluster, and waits until every node serves its slots.
    ///
    /// # Errors
    /// If that does not happen within 20 s.
    pub fn start() -> Result<Cluster> {
        let node = || Server::with(RedisServer::options().cluster());
        let mut cluster = Cluster { servers: (0..MASTERS).map(|_| node()).collect(), firsts: Vec::new() };
        cluster.meet()?;
        Ok(cluster)
    }

    fn meet(&mut self) -> Result<()> {
        let share = SLOTS / u16::try_from(MASTERS)?;
        let first = &self.servers[0];
        let first_bus = first.bus_port().ok_or("a node without a port for others")?;
        let first_port = first.address().port();
        for (at, server) in self.servers.iter().enumerate() {
            let first = share * u16::try_from(at)?;
            let last = if at + 1 == MASTERS { SLOTS - 1 } else { first + share - 1 };
            let mut control = server.control()?;
            control.call(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1))?;
            control.call(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
            control.call(&format!("CLUSTER MEET 127.0.0.1 {first_port} {first_bus}"))?;
            self.firsts.push(first);
        }
        let started = Instant::now();
        for server in &self.servers {
            let mut control = server.control()?;
            let known = format!("cluster_known_nodes:{MASTERS}");
            loop {
                let info = control.call("CLUSTER INFO")?;
                if info.contains("cluster_state:ok") && info.contains(&known) {
                    break;
                }
                if started.elapsed() > Duration::from_secs(20) {
                    return Err("the cluster's nodes do not find each other".into());
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// The masters.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The URL for distlock.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.servers.iter().map(|server| server.address().to_string()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The master of each key.
    ///
    /// # Errors
    /// If the server does not reply.
    pub fn places(&self, keys: &[String]) -> Result<Vec<usize>> {
        let mut control = self.servers[0].control()?;
        keys.iter()
            .map(|key| {
                let slot: u16 = control.call(&format!("CLUSTER KEYSLOT {key}"))?.parse()?;
                Ok(self.firsts.partition_point(|first| *first <= slot) - 1)
            })
            .collect()
    }
}
