//! A master with a replica, watched by three sentinels.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::RedisConfig;
use super::test_server::{LONG, Rig, TestServer, free_port, server_binary, wait_until};

/// One `redis-sentinel`.
pub(super) struct Sentinel {
    child: Child,
    pub(super) port: u16,
    tls_port: u16,
    conf: PathBuf,
}

impl Sentinel {
    /// `tls`: options and values in turn, of a sentinel that speaks TLS too, and to others only that.
    pub(super) fn start(master: u16, extra: &str, tls: &[String]) -> Sentinel {
        let (port, tls_port) = (free_port(), free_port());
        let conf = std::env::temp_dir().join(format!("distlock-sentinel-{port}.conf"));
        let mut text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds mymaster 1000\nsentinel failover-timeout mymaster 6000\n{extra}\n"
        );
        for option in tls.chunks(2) {
            writeln!(text, "{}", option.join(" ").trim_start_matches('-')).unwrap();
        }
        if !tls.is_empty() {
            writeln!(text, "tls-port {tls_port}\ntls-replication yes").unwrap();
        }
        fs::write(&conf, text).unwrap();
        let child = Command::new(server_binary())
            .arg(&conf)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Sentinel { child, port, tls_port, conf }
    }

    pub(super) fn ask(&self, words: &[&str]) -> Option<redis::Value> {
        self.run(&[&["SENTINEL"], words].concat())
    }

    pub(super) fn run(&self, words: &[&str]) -> Option<redis::Value> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.port)).unwrap();
        let mut connection = client.get_connection().ok()?;
        redis::Cmd::new().arg(words).query(&mut connection).ok()
    }

    pub(super) fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    fn count(&self, what: &str) -> usize {
        match self.ask(&[what, "mymaster"]) {
            Some(redis::Value::Array(items)) => items.len(),
            _ => 0,
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_file(&self.conf).unwrap();
    }
}

/// A master with one replica and three sentinels that know each other.
pub(super) struct Guarded {
    pub(super) sentinels: Vec<Sentinel>,
    pub(super) servers: Vec<TestServer>,
}

impl Guarded {
    pub(super) fn start() -> Guarded {
        let guarded = Guarded::with("", &[]);
        guarded.wait_until_ready();
        guarded
    }

    /// The same with TLS everywhere; the plain ports are for the test alone.
    #[cfg(feature = "tls")]
    pub(super) fn start_over_tls(tls: &[String]) -> Guarded {
        let guarded = Guarded::with("", tls);
        guarded.wait_until_ready();
        guarded
    }

    pub(super) fn with(extra: &str, tls: &[String]) -> Guarded {
        let (master, at) = server(&[], tls);
        let (replica, _) = server(&["--replicaof".to_owned(), format!("127.0.0.1 {at}")], tls);
        let sentinels: Vec<_> = (0..3).map(|_| Sentinel::start(at, extra, tls)).collect();
        Guarded { sentinels, servers: vec![master, replica] }
    }

    fn wait_until_ready(&self) {
        wait_until("sentinels and replicas know each other", LONG, || {
            self.sentinels.iter().all(|sentinel| {
                sentinel.ask(&["CKQUORUM", "mymaster"]).is_some()
                    && sentinel.count("SENTINELS") == 2
                    && sentinel.count("REPLICAS") == 1
            }) && self.servers[1].run::<String>("INFO replication").contains("master_link_status:up")
        });
    }

    pub(super) fn url(&self) -> String {
        format!("redis+sentinel://{}/mymaster", self.hosts(|sentinel| sentinel.port))
    }

    #[cfg(feature = "tls")]
    pub(super) fn tls_url(&self) -> String {
        format!("rediss+sentinel://{}/mymaster", self.hosts(|sentinel| sentinel.tls_port))
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

/// A server, and the port where other servers and sentinels reach it.
fn server(args: &[String], tls: &[String]) -> (TestServer, u16) {
    let tls_port = std::cell::Cell::new(0);
    let server = TestServer::start_with(|| {
        let mut args = args.to_vec();
        args.extend(["--repl-diskless-sync-delay", "0"].map(str::to_owned));
        if !tls.is_empty() {
            tls_port.set(free_port());
            args.extend(tls.iter().cloned());
            args.extend(["--tls-replication", "yes", "--tls-port"].map(str::to_owned));
            args.push(tls_port.get().to_string());
        }
        args
    });
    let port = if tls.is_empty() { server.port } else { tls_port.get() };
    (server, port)
}

pub(super) fn is_master(server: &TestServer) -> bool {
    // Connections are killed when a server changes its role.
    server.try_run::<String>("INFO replication").is_some_and(|info| info.contains("role:master"))
}
