//! A real `redis-server` process for one test.
//!
//! Invariant: once a function here returns, the server that answers on the port is this child process (its `INFO`
//! names our pid), and once the value is dropped the process and its directory are gone.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{ServerOptions, process, stepped_clock::SteppedClock};

/// A user of the fixture's own, so that it can look in whatever the test does to the others.
pub(crate) const ADMIN: &str = "fixture";

const BINARY_VARIABLE: &str = "DISTLOCK_TEST_SERVER";
const START_BOUND: Duration = Duration::from_secs(30);

/// A `redis-server` of its own; killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    options: ServerOptions,
    directory: TempDir,
    ports: Ports,
    clock: Option<SteppedClock>,
    child: Child,
}

/// Where a server listens: for clients, and in a cluster for the other nodes.
#[derive(Debug, Clone, Copy)]
struct Ports {
    clients: u16,
    bus: Option<u16>,
}

enum StartError {
    PortTaken,
    Died(String),
}

impl RedisServer {
    /// A server with default options: no password, 16 databases, nothing kept on disk.
    #[must_use]
    pub fn start() -> Self {
        Self::with(ServerOptions::default())
    }

    /// Options first.
    #[must_use]
    pub fn options() -> ServerOptions {
        ServerOptions::default()
    }

    pub(crate) fn with(options: ServerOptions) -> Self {
        let directory = tempfile::Builder::new().prefix("distlock-redis-").tempdir().unwrap();
        let clock = options.stepped_clock.then(|| SteppedClock::new(directory.path()));
        let begin = Instant::now();
        loop {
            let clients = options.port.unwrap_or_else(free_port);
            let ports = Ports { clients, bus: options.cluster.then(free_port) };
            match launch(&options, &directory, ports, clock.as_ref()) {
                Ok(child) => return Self { options, directory, ports, clock, child },
                Err(StartError::PortTaken) if begin.elapsed() < START_BOUND => {}
                Err(StartError::PortTaken) => panic!("port {clients} stayed taken for {START_BOUND:?}"),
                Err(StartError::Died(log)) => panic!("the server did not start:\n{log}"),
            }
        }
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.clients
    }

    /// The port for the other nodes of its cluster.
    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.ports.bus
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The URL of the default user.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@{}/", self.address()),
            None => format!("redis://{}/", self.address()),
        }
    }

    /// The URL of an ACL user.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}/", self.address())
    }

    /// The URL of another database.
    #[must_use]
    pub fn url_of_database(&self, number: u32) -> String {
        format!("{}{number}", self.url())
    }

    /// Path of the unix socket, when asked for.
    #[must_use]
    pub fn unix_path(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// The URL of the unix socket, when asked for.
    #[must_use]
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.unix_path().display())
    }

    pub(crate) fn admin_url(&self) -> String {
        self.url_as(ADMIN, ADMIN)
    }

    /// Process id of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// kill −9. The port is free and every connection is reset afterwards.
    pub fn kill9(&mut self) {
        process::kill9(&mut self.child);
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub fn stop(&self) {
        process::stop(&self.child);
    }

    /// SIGCONT after [`stop`](RedisServer::stop).
    pub fn cont(&self) {
        process::cont(&self.child);
    }

    /// The server's wall clock jumps ahead by so much; asked for with [`ServerOptions::stepped_clock`].
    pub fn step_clock_forward(&self, by: Duration) {
        self.stepped_clock().forward(by);
    }

    /// The server's wall clock jumps back by so much.
    pub fn step_clock_back(&self, by: Duration) {
        self.stepped_clock().back(by);
    }

    fn stepped_clock(&self) -> &SteppedClock {
        self.clock.as_ref().expect("a server that was started with `stepped_clock`")
    }

    /// Starts again on the same port and directory, killing it first when it still runs.
    pub fn restart(&mut self) {
        self.kill9();
        let begin = Instant::now();
        self.child = loop {
            match launch(&self.options, &self.directory, self.ports, self.clock.as_ref()) {
                Ok(child) => break child,
                Err(StartError::PortTaken) if begin.elapsed() < START_BOUND => {}
                Err(StartError::PortTaken) => panic!("port {} was taken by somebody else", self.port()),
                Err(StartError::Died(log)) => panic!("the server did not restart:\n{log}"),
            }
        };
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn launch(
    options: &ServerOptions,
    directory: &TempDir,
    ports: Ports,
    clock: Option<&SteppedClock>,
) -> Result<Child, StartError> {
    let configuration = directory.path().join("redis.conf");
    let log = directory.path().join("server.log");
    std::fs::write(&configuration, configuration_of(options, directory, ports)).unwrap();
    let output = File::create(&log).unwrap();
    let binary = std::env::var(BINARY_VARIABLE).unwrap_or_else(|_| "redis-server".to_owned());
    let mut command = Command::new(&binary);
    if let Some(clock) = clock {
        clock.preload(&mut command);
    }
    let mut child = command
        .arg(&configuration)
        .args(options.sentinel.then_some("--sentinel"))
        .stdin(Stdio::null())
        .stderr(output.try_clone().unwrap())
        .stdout(output)
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "cannot start `{binary}` ({error}): these tests need a real server. Install it with \
                 `apt-get install redis-server`, or name its binary in {BINARY_VARIABLE}"
            )
        });
    let begin = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let taken = log.contains("Address already in use");
            return Err(if taken { StartError::PortTaken } else { StartError::Died(log) });
        }
        if answers(ports.clients, child.id()) {
            return Ok(child);
        }
        if begin.elapsed() > START_BOUND {
            process::kill9(&mut child);
            return Err(StartError::Died(std::fs::read_to_string(&log).unwrap_or_default()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn configuration_of(options: &ServerOptions, directory: &TempDir, ports: Ports) -> String {
    let mut lines = vec![
        "bind 127.0.0.1".to_owned(),
        format!("port {}", ports.clients),
        format!("dir {}", directory.path().display()),
        format!("user {ADMIN} on >{ADMIN} ~* &* +@all"),
    ];
    if !options.sentinel {
        lines.push("save \"\"".to_owned());
    }
    if let Some(bus) = ports.bus {
        lines.extend(["cluster-enabled yes".to_owned(), format!("cluster-port {bus}")]);
    }
    if options.unix_socket {
        lines.push(format!("unixsocket {}", directory.path().join("redis.sock").display()));
    }
    lines.extend(options.directives.iter().cloned());
    lines.join("\n") + "\n"
}

/// Whether our child, and not somebody else's server on the same port, has loaded its data and answers.
fn answers(port: u16, pid: u32) -> bool {
    let info = || -> redis::RedisResult<String> {
        let url = format!("redis://{ADMIN}:{ADMIN}@127.0.0.1:{port}/");
        let mut connection = redis::Client::open(url)?.get_connection_with_timeout(Duration::from_secs(2))?;
        connection.set_read_timeout(Some(Duration::from_secs(2)))?;
        redis::cmd("INFO").query(&mut connection)
    };
    info().is_ok_and(|info| {
        info.lines().any(|line| line == format!("process_id:{pid}"))
            && !info.lines().any(|line| line == "loading:1")
    })
}

/// A port that is free now, below the range the kernel gives to outgoing connections, so that nobody gets it while
/// a server is down between kill and restart.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    let start = u16::try_from(u32::from(COUNT) * (std::process::id() % 97) / 97).unwrap();
    loop {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_server_has_the_same_port_and_keeps_what_was_on_disk() {
        let mut server = RedisServer::options().append_only().password("secret").start();
        let (port, pid) = (server.port(), server.pid());
        server.raw(&["SET", "k", "v"]);
        server.restart();
        assert_eq!(server.get("k").as_deref(), Some("v"));
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
    }

    #[test]
    fn a_stopped_server_is_silent_until_it_goes_on() {
        let server = RedisServer::start();
        server.stop();
        let silent = redis::Client::open(server.url())
            .unwrap()
            .get_connection_with_timeout(Duration::from_millis(200));
        assert!(silent.is_err_and(|error| error.is_timeout()));
        server.cont();
        assert_eq!(server.get("k"), None);
    }

    #[test]
    fn a_clock_of_its_own_jumps_to_and_fro() {
        let server = RedisServer::options().stepped_clock().start();
        let year = Duration::from_secs(365 * 24 * 3600);
        let clock = || -> i64 {
            let (seconds, _): (i64, i64) = redis::from_redis_value(server.raw(&["TIME"])).unwrap();
            seconds
        };
        let before = clock();
        server.step_clock_forward(year * 2);
        let (ahead, two) = (clock() - before, i64::try_from(year.as_secs()).unwrap() * 2);
        assert!((two..two + 60).contains(&ahead), "{ahead}");
        server.step_clock_back(year * 3);
        assert!(clock() < before);
    }

    #[test]
    fn a_dropped_server_is_gone_with_its_directory() {
        let server = RedisServer::start();
        let (port, directory) = (server.port(), server.directory.path().to_owned());
        drop(server);
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(!directory.exists());
    }
}
