//! A separate PostgreSQL, which flushes to the disk as in production.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::Result;
use crate::cpu::cpu_time_of;

/// The user whose connections are not counted.
const OBSERVER: &str = "observer";
const REMEDY: &str = "`apt-get install postgresql`";

/// A server with its data on the disk, and a connection that observes it. It is ended when this is dropped.
pub(crate) struct PostgresOnDisk {
    server: Child,
    port: u16,
    directory: TempDir,
    observer: Client,
}

impl PostgresOnDisk {
    /// Starts it, and creates the tables of the other contenders.
    pub(crate) async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        if let Some((user, group)) = other_user()? {
            chown(directory.path(), Some(user), Some(group))?;
        }
        let mut make = program("initdb", &directory)?;
        make.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=admin", "--no-sync", "data"]);
        if !make.status().map_err(|error| format!("initdb ({error}): {REMEDY}"))?.success() {
            return Err("initdb has failed".into());
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut serve = program("postgres", &directory)?;
        serve.args(["-D", "data", "-h", "127.0.0.1", "-p", &port.to_string()]);
        let counting = "shared_preload_libraries=pg_stat_statements";
        for setting in ["unix_socket_directories=", "max_connections=200", "shared_buffers=128MB", counting] {
            serve.args(["-c", setting]);
        }
        let server = serve.spawn()?;
        let observer = observer(port).await?;
        observer.batch_execute("CREATE EXTENSION pg_stat_statements").await?;
        observer.batch_execute(include_str!("rivals.sql")).await?;
        Ok(PostgresOnDisk { server, port, directory, observer })
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    /// The number of statements that clients have sent. (There are more transactions, because a notification is one in
    /// every process that listens.)
    pub(crate) async fn requests(&self) -> Result<u64> {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_%'";
        let count: i64 = self.observer.query_one(sql, &[]).await?.try_get(0)?;
        Ok(u64::try_from(count)?)
    }

    /// Waits until all other clients have disconnected.
    pub(crate) async fn until_alone(&self) -> Result<()> {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND application_name <> $1";
        while self.observer.query_one(others, &[&OBSERVER]).await?.try_get::<_, i64>(0)? > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The CPU time of all its processes.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(self.server.id())
    }
}

impl Drop for PostgresOnDisk {
    fn drop(&mut self) {
        // Its children end with it. If `pg_ctl` fails, the server is killed, and the children notice it.
        let stopped = program("pg_ctl", &self.directory)
            .and_then(|mut stop| Ok(stop.args(["-D", "data", "-m", "immediate", "-w", "stop"]).status()?));
        if !stopped.is_ok_and(|status| status.success()) {
            drop(self.server.kill());
        }
        drop(self.server.wait());
    }
}

fn url(port: u16) -> String {
    format!("postgres://admin@127.0.0.1:{port}/postgres")
}

/// Connects as soon as the server accepts connections.
async fn observer(port: u16) -> Result<Client> {
    let start = Instant::now();
    loop {
        match tokio_postgres::connect(&format!("{}?application_name={OBSERVER}", url(port)), NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Err(error) if start.elapsed() > Duration::from_secs(30) => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A program of the newest installed version, for the user that may run it.
fn program(name: &str, directory: &TempDir) -> Result<Command> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).filter(|path| number(path).is_some()).max_by_key(number);
    let newest = newest.ok_or_else(|| format!("no PostgreSQL: {REMEDY}"))?;
    let mut command = Command::new(newest.join("bin").join(name));
    command.current_dir(directory.path()).env("HOME", directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some((user, group)) = other_user()? {
        command.uid(user).gid(group);
    }
    Ok(command)
}

/// `nobody`, if this process is root, because the server refuses to run as root.
fn other_user() -> Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find_map(|line| line.strip_prefix("nobody:")).ok_or("no user `nobody`")?;
    let number = |at: usize| line.split(':').nth(at)?.parse().ok();
    Ok(Some(number(1).zip(number(2)).ok_or("`nobody` has no ids")?))
}
