//! A real PostgreSQL server for one test, or for all tests of a process.
//!
//! Invariant: once a function here returns, the server that answers on the port is this child process (its directory
//! is ours), and once the value is dropped the process and its directory are gone. It does not run as root, which it
//! refuses; and it never waits for the disk, which only a crash of the machine would show.

use std::{
    fs::{self, File},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU16, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls, Row};

use crate::{Proxy, eventually_blocking, keeper, process};

const BINARIES_VARIABLE: &str = "DISTLOCK_TEST_POSTGRES";
const START_BOUND: Duration = Duration::from_secs(60);
/// The user and the group that nobody logs in as.
pub(crate) const NOBODY: u32 = 65_534;
/// The superuser of the server, and its database.
const ADMIN: &str = "admin";
const DATABASE: &str = "postgres";

/// A server of its own; killed when dropped.
#[derive(Debug)]
pub struct PostgresServer {
    directory: TempDir,
    port: u16,
    settings: Vec<String>,
    child: Child,
}

impl PostgresServer {
    /// A server on a free port, to which everybody on this machine may connect.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// The same with settings of `postgresql.conf`.
    #[must_use]
    pub fn with(settings: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("distlock-postgres-").tempdir().unwrap();
        if getuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = directory.path().join("data");
        let made = unprivileged(&binaries().join("initdb"))
            .args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", ADMIN, "-D"])
            .arg(&data)
            .output()
            .unwrap_or_else(|error| missing(&error));
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let begin = Instant::now();
        loop {
            let port = free_port();
            match launch(directory.path(), port, &settings) {
                Ok(child) => return PostgresServer { directory, port, settings, child },
                Err(log) if log.contains("could not bind") && begin.elapsed() < START_BOUND => {}
                Err(log) => panic!("the server did not start:\n{log}"),
            }
        }
    }

    /// A server that waits for a primary which never comes: it can be read, not written to.
    #[must_use]
    pub fn standby() -> Self {
        let mut server = Self::start();
        server.kill9();
        File::create(server.directory.path().join("data/standby.signal")).unwrap();
        server.restart();
        server
    }

    /// The server that all tests of this process share.
    pub fn shared() -> &'static PostgresServer {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| {
            let server = PostgresServer::with(&["max_connections = 400"]);
            keeper::end([(server.pid(), server.directory.path())]);
            server
        })
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of the superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as(ADMIN, "")
    }

    /// The URL of another role.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("postgres://{user}:{password}@{}/{DATABASE}", self.address())
    }

    /// The URL of the superuser, through this proxy.
    #[must_use]
    pub fn url_through(&self, proxy: &Proxy) -> String {
        format!("postgres://{ADMIN}@{}/{DATABASE}", proxy.address())
    }

    /// A role that logs in with a password, and may do nothing else.
    pub async fn make_role(&self, name: &str, password: &str) {
        self.run(&format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'")).await;
        let file = self.directory.path().join("data/pg_hba.conf");
        let rules = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("host all {name} 127.0.0.1/32 scram-sha-256\n{rules}")).unwrap();
        self.run("SELECT pg_reload_conf()").await;
        // The server re-reads the file when it gets to it.
        let rule = format!("SELECT FROM pg_hba_file_rules WHERE user_name = '{{{name}}}'");
        crate::eventually("the rule is read", async || !self.rows(&rule).await.is_empty()).await;
    }

    /// Ends all connections of others that call themselves `distlock`, and returns how many there were.
    pub async fn terminate_clients(&self) -> i64 {
        let sql = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE application_name = 'distlock' AND pid <> pg_backend_pid()";
        self.rows(sql).await[0].get(0)
    }

    /// A schema that no other test of this process has; it is made by whoever needs it first.
    #[must_use]
    pub fn unused_schema() -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("locks_{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Process id of the server; its children serve one connection each.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A connection of the superuser, to look in from outside.
    pub async fn admin(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        // Ends with the client.
        tokio::spawn(connection);
        client
    }

    /// What a statement returns.
    pub async fn rows(&self, sql: &str) -> Vec<Row> {
        self.admin().await.query(sql, &[]).await.unwrap()
    }

    /// Carries out statements.
    pub async fn run(&self, sql: &str) {
        self.admin().await.batch_execute(sql).await.unwrap();
    }

    /// Locks that are held and places in queues, of keys with this prefix.
    pub async fn residue(&self, schema: &str, prefix: &str) -> Vec<String> {
        let sql = format!(
            "SELECT encode(key, 'escape') || ' held by ' || owner FROM {schema}.lock_1
                 WHERE owner IS NOT NULL AND expires > clock_timestamp() AND starts_with(encode(key, 'escape'), $1)
             UNION ALL SELECT encode(key, 'escape') || ' shared by ' || owner FROM {schema}.holder_1
                 WHERE expires > clock_timestamp() AND starts_with(encode(key, 'escape'), $1)
             UNION ALL SELECT encode(key, 'escape') || ' awaited by ' || owner FROM {schema}.waiter_1
                 WHERE starts_with(encode(key, 'escape'), $1)"
        );
        let rows = self.admin().await.query(&sql, &[&prefix]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// kill −9 of the server; its children notice and end, too.
    pub fn kill9(&mut self) {
        process::kill9(&mut self.child);
    }

    /// Starts again on the same port and directory, killing it first when it still runs.
    pub fn restart(&mut self) {
        self.kill9();
        let begin = Instant::now();
        self.child = loop {
            match launch(self.directory.path(), self.port, &self.settings) {
                Ok(child) => break child,
                // Children of the one that was killed are still about to end.
                Err(log) if begin.elapsed() < START_BOUND => drop(log),
                Err(log) => panic!("the server did not restart:\n{log}"),
            }
        };
    }

    /// SIGSTOP to the server and all its children: connections stay open, nothing is answered.
    pub fn stop(&self) {
        process::stop(&self.child);
        for child in self.children() {
            signal(child, Signal::STOP);
        }
    }

    /// SIGCONT after [`stop`](PostgresServer::stop).
    pub fn cont(&self) {
        for child in self.children() {
            signal(child, Signal::CONT);
        }
        process::cont(&self.child);
    }

    fn children(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = fs::read_to_string(path).unwrap_or_default();
        children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let children = self.children();
        self.kill9();
        // They write into the directory until they have noticed.
        eventually_blocking("the server's children have ended", || {
            !children.iter().any(|child| Path::new(&format!("/proc/{child}")).exists())
        });
    }
}

/// A child that has ended already needs no signal.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

fn launch(directory: &Path, port: u16, settings: &Vec<String>) -> Result<Child, String> {
    let log = directory.join("server.log");
    let output = File::create(&log).unwrap();
    let mut command = unprivileged(&binaries().join("postgres"));
    command.arg("-D").arg(directory.join("data")).args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    let own = ["unix_socket_directories=", "fsync=off", "shared_buffers=16MB", "max_wal_size=256MB"];
    for setting in own.iter().map(|own| (*own).to_owned()).chain(settings.iter().cloned()) {
        command.args(["-c", &setting.replace(" = ", "=")]);
    }
    let spawned = command.stdin(Stdio::null()).stderr(output.try_clone().unwrap()).stdout(output).spawn();
    let mut child = spawned.unwrap_or_else(|error| missing(&error));
    let begin = Instant::now();
    loop {
        let said = fs::read_to_string(&log).unwrap_or_default();
        if child.try_wait().unwrap().is_some() {
            return Err(said);
        }
        if said.contains("database system is ready to accept") {
            return Ok(child);
        }
        if begin.elapsed() > START_BOUND {
            process::kill9(&mut child);
            return Err(said);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program, as somebody who may do nothing else.
pub(crate) fn unprivileged(path: &Path) -> Command {
    let mut command = Command::new(path);
    if getuid().is_root() {
        command = Command::new("setpriv");
        let nobody = NOBODY.to_string();
        command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]).arg(path);
    }
    command.current_dir("/");
    command
}

/// Where they are: Debian has a folder for each version.
fn binaries() -> PathBuf {
    if let Some(named) = std::env::var_os(BINARIES_VARIABLE) {
        return named.into();
    }
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).filter(|path| number(path).is_some()).max_by_key(number);
    newest.map_or_else(PathBuf::new, |path| path.join("bin"))
}

fn missing(error: &std::io::Error) -> ! {
    panic!(
        "cannot start PostgreSQL ({error}): these tests need a real server. Install it with `apt-get install postgresql`, \
         or name the folder of its programs in {BINARIES_VARIABLE}"
    )
}

/// A port below those that the kernel gives to outgoing connections.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 14_000;
    const COUNT: u16 = 5_000;
    let start = u16::try_from(u32::from(COUNT) * (std::process::id() % 89) / 89).unwrap();
    loop {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
