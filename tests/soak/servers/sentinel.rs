//! A master and a replica that change places.

use std::sync::Arc;

use distlock_tests::{Proxy, RedisServer, SentinelGroup, eventually_blocking};
use fastrand::Rng;

use super::{Harm, Lane, Servers, disturb, sleep};
use crate::plan::Offer;

/// Below what the sentinels take for a death.
const SILENCE_MS: u64 = 600;

pub(crate) struct Sentinel(SentinelGroup);

impl Sentinel {
    pub(crate) fn start() -> Self {
        Sentinel(SentinelGroup::start())
    }

    fn strike(&mut self, rng: &mut Rng) -> Harm {
        let at = self.master();
        match rng.u32(..16) {
            0 => {
                self.0.servers_mut()[at].kill9();
                self.wait_for_master(1 - at);
                self.0.servers_mut()[at].restart();
            }
            1 => {
                self.0.servers()[at].stop();
                sleep(rng, 1_000..3_500);
                self.0.servers()[at].cont();
            }
            2 | 3 => {
                // Refused while one is under way.
                if self.0.sentinels()[0].try_raw(&["SENTINEL", "FAILOVER", "mymaster"]).is_ok() {
                    self.wait_for_master(1 - at);
                }
            }
            _ => return disturb(&self.0.servers()[at], rng, SILENCE_MS),
        }
        self.settle();
        Harm::MayForget
    }

    fn is_master(&self, at: usize) -> bool {
        let expected = format!("address={},", self.0.servers()[at].address());
        self.0.sentinels().iter().all(|one| one.info("master0").contains(&expected))
            && self.0.servers()[at].info("role") == "master"
    }

    fn wait_for_master(&self, at: usize) {
        eventually_blocking("the sentinels have agreed", || self.is_master(at));
    }

    fn is_settled(&self, at: usize) -> bool {
        let replica = &self.0.servers()[1 - at];
        self.is_master(at)
            && replica.info("role") == "slave"
            && replica.info("master_link_status") == "up"
            && replica.info("master_port") == self.0.servers()[at].port().to_string()
    }

    /// Waits until there is one master, and one replica that follows it.
    fn settle(&self) {
        eventually_blocking("a master and its replica", || (0..2).any(|at| self.is_settled(at)));
    }

    fn master(&self) -> usize {
        self.settle();
        usize::from(!self.is_master(0))
    }
}

impl Servers for Sentinel {
    fn offer(&self) -> Offer {
        Offer::EveryKind
    }

    fn urls(&self) -> Vec<String> {
        vec![self.0.url()]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        Vec::new()
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        vec![Box::new(|rng| self.strike(rng))]
    }

    fn heal(&mut self) {
        self.settle();
    }

    fn masters(&self) -> Vec<&RedisServer> {
        vec![&self.0.servers()[self.master()]]
    }
}
