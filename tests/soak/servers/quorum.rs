//! Five servers without data on the disk. At most two of them have faults at a time. Half of the clients reach them
//! over separate links, which also fail.

use std::sync::Arc;

use distlock_tests::{Proxy, QuorumServers, RedisServer};
use fastrand::Rng;

use super::{Harm, Lane, Servers, redis, sleep};

const SILENCE_MS: u64 = 3_000;

pub(crate) struct Quorum {
    servers: QuorumServers,
    links: Vec<Arc<Proxy>>,
}

impl Quorum {
    pub(crate) fn start() -> Self {
        let servers = QuorumServers::start();
        let links = servers.links().into_iter().map(Arc::new).collect();
        Quorum { servers, links }
    }
}

impl Servers for Quorum {
    fn urls(&self) -> Vec<String> {
        let hosts: Vec<_> = self.links.iter().map(|link| link.address().to_string()).collect();
        vec![self.servers.url(), format!("redis+quorum://{}", hosts.join(","))]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        self.links.clone()
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        let (some, others) = self.servers.servers_mut().split_at_mut(3);
        vec![Box::new(|rng| strike(some, rng)), Box::new(|rng| strike(others, rng))]
    }

    fn residue(&self) -> Vec<String> {
        redis::residue(self.servers.servers())
    }
}

/// Executes a fault on one of these servers.
fn strike(servers: &mut [RedisServer], rng: &mut Rng) -> Harm {
    let server = &mut servers[rng.usize(..servers.len())];
    match rng.u32(..24) {
        0 => {
            server.raw(&["FLUSHALL"]);
            Harm::MayForget
        }
        1..4 => {
            server.kill9();
            sleep(rng, 0..2_000);
            server.restart();
            Harm::None
        }
        _ => redis::disturb(server, rng, SILENCE_MS),
    }
}
