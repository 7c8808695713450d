//! A master and a replica that change roles.

use std::sync::Arc;

use distlock_tests::{Proxy, SentinelGroup, eventually_blocking};
use fastrand::Rng;

use super::{Harm, Lane, Servers, redis, sleep};

/// Shorter than the silence after which the sentinels treat a server as dead.
const SILENCE_MS: u64 = 600;

pub(crate) struct Sentinel {
    group: SentinelGroup,
    /// The server that was the master at the last check.
    known: usize,
}

impl Sentinel {
    pub(crate) fn start() -> Self {
        Sentinel { group: SentinelGroup::start(), known: 0 }
    }

    /// Executes a fault. Returns whether there was a fail-over, with or without a command.
    fn strike(&mut self, rng: &mut Rng) -> Harm {
        let harm = self.draw(rng);
        if self.heal() == Harm::MayForget { Harm::MayForget } else { harm }
    }

    fn draw(&mut self, rng: &mut Rng) -> Harm {
        let at = self.master();
        match rng.u32(..16) {
            0 => {
                self.group.servers_mut()[at].kill9();
                self.wait_for_master(1 - at);
                self.group.servers_mut()[at].restart();
            }
            1 => {
                self.group.servers()[at].stop();
                sleep(rng, 1_000..3_500);
                self.group.servers()[at].cont();
            }
            2 | 3 => {
                // Refused while a fail-over is in progress.
                if self.group.sentinels()[0].try_raw(&["SENTINEL", "FAILOVER", "mymaster"]).is_ok() {
                    self.wait_for_master(1 - at);
                }
            }
            _ => return redis::disturb(&self.group.servers()[at], rng, SILENCE_MS),
        }
        self.settle();
        Harm::MayForget
    }

    fn is_master(&self, at: usize) -> bool {
        let expected = format!("address={},", self.group.servers()[at].address());
        self.group.sentinels().iter().all(|one| one.info("master0").contains(&expected))
            && self.group.servers()[at].info("role") == "master"
    }

    fn wait_for_master(&self, at: usize) {
        eventually_blocking("the sentinels have agreed", || self.is_master(at));
    }

    fn is_settled(&self, at: usize) -> bool {
        let replica = &self.group.servers()[1 - at];
        self.is_master(at)
            && replica.info("role") == "slave"
            && replica.info("master_link_status") == "up"
            && replica.info("master_port") == self.group.servers()[at].port().to_string()
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
    fn urls(&self) -> Vec<String> {
        vec![self.group.url()]
    }

    fn links(&self) -> Vec<Arc<Proxy>> {
        Vec::new()
    }

    fn lanes(&mut self) -> Vec<Lane<'_>> {
        vec![Box::new(|rng| self.strike(rng))]
    }

    fn heal(&mut self) -> Harm {
        let master = self.master();
        if std::mem::replace(&mut self.known, master) == master { Harm::None } else { Harm::MayForget }
    }

    fn residue(&self) -> Vec<String> {
        redis::residue([&self.group.servers()[self.master()]])
    }
}
