//! A master with a replica, watched by three sentinels.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use crate::{BOUND, Proxy, RedisServer, ServerOptions, eventually_blocking, keeper};

const MASTER_NAME: &str = "mymaster";
const SENTINELS: usize = 3;

/// Real processes: a master, a replica or two, three sentinels with a quorum of two.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// A group of a test's own, which holds a master for dead after a second of silence.
    #[must_use]
    pub fn start() -> Self {
        let master = server().start();
        let port = master.port();
        Self::with(master, port, Duration::from_secs(1))
    }

    /// The same with a second replica, which is never promoted, and masters that accept no write without a replica, as
    /// Redis recommends against lost writes.
    #[must_use]
    pub fn start_with_required_replicas() -> Self {
        let careful = server().directive("min-replicas-to-write 1");
        let master = careful.clone().start();
        let port = master.port();
        let replica = careful.clone().replica_of(port).start();
        let second = careful.directive("replica-priority 0").replica_of(port).start();
        Self::watch(vec![master, replica, second], port, Duration::from_secs(1))
    }

    /// The same, but everybody, sentinels and replica too, reaches the first master over a link that the test can
    /// break.
    #[must_use]
    pub fn start_behind_a_link() -> (Self, Proxy) {
        let master = server().start();
        let link = Proxy::to(&master.address());
        let port = link.address().port();
        (Self::with(master, port, Duration::from_secs(1)), link)
    }

    /// The group that all tests of this process share, and that none may harm. No load makes it fail over.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<SentinelGroup> = OnceLock::new();
        SHARED.get_or_init(|| {
            let master = server().start();
            let port = master.port();
            let group = Self::with(master, port, BOUND * 2);
            keeper::end_with_this_process(group.servers.iter().chain(&group.sentinels));
            group
        })
    }

    /// `port`: where the others reach the master.
    fn with(master: RedisServer, port: u16, down_after: Duration) -> Self {
        let replica = server().replica_of(port).start();
        Self::watch(vec![master, replica], port, down_after)
    }

    /// The first of these is the master.
    fn watch(servers: Vec<RedisServer>, port: u16, down_after: Duration) -> Self {
        let monitor = format!("sentinel monitor {MASTER_NAME} 127.0.0.1 {port} 2");
        let down_after = format!("sentinel down-after-milliseconds {MASTER_NAME} {}", down_after.as_millis());
        let sentinel = RedisServer::options()
            .sentinel()
            .directive(&monitor)
            .directive(&down_after)
            .directive(&format!("sentinel failover-timeout {MASTER_NAME} 6000"));
        let sentinels = (0..SENTINELS).map(|_| sentinel.clone().start()).collect();
        let group = Self { servers, sentinels };
        group.wait_until_complete(port);
        group
    }

    fn wait_until_complete(&self, port: u16) {
        let replicas = &self.servers[1..];
        eventually_blocking("the replicas follow", || {
            replicas.iter().all(|replica| replica.info("master_link_status") == "up")
        });
        eventually_blocking("the sentinels know everybody", || {
            let replicas = replicas.len();
            let everybody = format!("status=ok,address=127.0.0.1:{port},slaves={replicas},sentinels=3");
            self.sentinels.iter().all(|one| one.info("master0").ends_with(&everybody))
        });
    }

    /// `redis+sentinel://…`
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(RedisServer::address).collect();
        format!("redis+sentinel://{}/{MASTER_NAME}", hosts.join(","))
    }

    /// The master at first, and its replicas.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The servers, to be killed and restarted.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// Those who watch them.
    #[must_use]
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The master, while nothing has failed over.
    #[must_use]
    pub fn masters(&self) -> &[RedisServer] {
        &self.servers[..1]
    }

    /// The master at first.
    pub fn first_master(&mut self) -> &mut RedisServer {
        &mut self.servers[0]
    }

    /// Lets the replica follow the master over a link of the test's. The sentinels put that right after 8 s.
    ///
    /// # Panics
    /// When the replica does not get up to date.
    pub fn replicate_through(&self, port: u16) {
        let replica = &self.servers[1];
        replica.raw(&["REPLICAOF", "127.0.0.1", &port.to_string()]);
        eventually_blocking("the replica follows over the link", || {
            replica.info("master_port") == port.to_string() && replica.info("master_link_status") == "up"
        });
    }

    /// Asks the sentinels to fail over although the master is well.
    pub fn fail_over(&self) {
        self.sentinels[0].raw(&["SENTINEL", "FAILOVER", MASTER_NAME]);
    }

    /// Waits until the sentinels have put the replica of the beginning in charge, and it accepts writes.
    ///
    /// # Panics
    /// When they do not.
    pub fn wait_until_failed_over(&self) -> Duration {
        let start = Instant::now();
        let expected = self.servers[1].address();
        eventually_blocking("the sentinels have agreed on the replica", || {
            self.sentinels.iter().all(|one| one.info("master0").contains(&format!("address={expected},")))
        });
        eventually_blocking("the replica is the master", || self.servers[1].info("role") == "master");
        start.elapsed()
    }

    /// Waits until the old master follows the new one.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_demoted(&self) {
        eventually_blocking("the old master follows the new one", || {
            self.servers[0].info("role") == "slave" && self.servers[0].info("master_link_status") == "up"
        });
    }
}

fn server() -> ServerOptions {
    RedisServer::options().directive("repl-diskless-sync-delay 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replica_takes_over_when_the_master_is_killed() {
        let mut group = SentinelGroup::start();
        group.first_master().kill9();
        group.wait_until_failed_over();
        group.servers()[1].raw(&["SET", "k", "v"]);
    }
}
