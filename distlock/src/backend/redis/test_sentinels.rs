//! A master with a replica, watched by three sentinels.

use distlock_fixtures::{RedisServer, SentinelGroup};

use super::RedisConfig;
use super::test_server::{Rig, TestServer};

/// One `redis-sentinel`.
pub(super) struct Sentinel(TestServer);

impl Sentinel {
    /// A sentinel that watches a master without other sentinels.
    pub(super) fn alone(master: u16) -> Sentinel {
        let monitor = format!("sentinel monitor mymaster 127.0.0.1 {master} 2");
        Sentinel(RedisServer::options().sentinel().directive(&monitor).start().into())
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port
    }

    pub(super) fn ask(&self, words: &[&str]) -> Option<redis::Value> {
        self.run(&[&["SENTINEL"], words].concat())
    }

    pub(super) fn run(&self, words: &[&str]) -> Option<redis::Value> {
        self.0.try_raw(words).ok()
    }

    pub(super) fn connection(&self) -> redis::Connection {
        self.0.connection()
    }

    /// The number of commands that it has executed.
    pub(super) fn commands(&self) -> f64 {
        self.0.info("total_commands_processed").parse().unwrap()
    }

    /// CPU time, in microseconds.
    pub(super) fn cpu(&self) -> f64 {
        cpu(&self.0)
    }

    pub(super) fn stop(&self) {
        self.0.stop();
    }

    pub(super) fn resume(&self) {
        self.0.resume();
    }
}

/// CPU time of a server, in microseconds.
pub(super) fn cpu(server: &TestServer) -> f64 {
    let seconds = |field| server.info(field).parse::<f64>().unwrap();
    (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6
}

/// A master with one replica and three sentinels that know each other.
pub(super) struct Guarded {
    pub(super) sentinels: Vec<Sentinel>,
    pub(super) servers: Vec<TestServer>,
}

impl From<SentinelGroup> for Guarded {
    fn from(group: SentinelGroup) -> Self {
        let (servers, sentinels) = group.into_parts();
        let sentinels = sentinels.into_iter().map(|one| Sentinel(one.into())).collect();
        Guarded { sentinels, servers: servers.into_iter().map(TestServer::from).collect() }
    }
}

impl Guarded {
    pub(super) fn start() -> Guarded {
        SentinelGroup::start().into()
    }

    /// The same with TLS everywhere; the plain ports are for the test alone.
    pub(super) fn start_over_tls(directives: &[String]) -> Guarded {
        SentinelGroup::start_over_tls(directives).into()
    }

    pub(super) fn url(&self) -> String {
        format!("redis+sentinel://{}/mymaster", self.hosts(Sentinel::port))
    }

    pub(super) fn tls_url(&self) -> String {
        format!("rediss+sentinel://{}/mymaster", self.hosts(|sentinel| sentinel.0.tls_port()))
    }

    fn hosts(&self, port: impl Fn(&Sentinel) -> u16) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", port(one))).collect();
        hosts.join(",")
    }

    pub(super) fn rig(&self, client: &str) -> Rig {
        let rig = Rig::start(RedisConfig::new(&self.url(), client).unwrap());
        rig.wait_until_up();
        rig
    }
}

pub(super) fn is_master(server: &TestServer) -> bool {
    // Connections are killed when a server changes its role.
    server.try_run::<String>("INFO replication").is_some_and(|info| info.contains("role:master"))
}
