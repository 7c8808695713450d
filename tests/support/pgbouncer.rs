//! A pooler in front of a PostgreSQL server, which gives every transaction another connection.

use std::{
    fs::{self, File},
    os::unix::fs::chown,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use rustix::process::getuid;
use tempfile::TempDir;

use crate::{
    PostgresServer,
    postgres_server::{NOBODY, free_port, unprivileged},
    process,
};

const BINARY_VARIABLE: &str = "DISTLOCK_TEST_PGBOUNCER";
const START_BOUND: Duration = Duration::from_secs(30);

/// A pooler of its own; killed when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    _directory: TempDir,
    port: u16,
    child: Child,
}

impl PgBouncer {
    /// In front of this server, with a connection for each transaction.
    #[must_use]
    pub fn to(server: &PostgresServer) -> Self {
        let directory = tempfile::Builder::new().prefix("distlock-pgbouncer-").tempdir().unwrap();
        let begin = Instant::now();
        loop {
            let port = free_port();
            match launch(&directory, port, server) {
                Ok(child) => return PgBouncer { _directory: directory, port, child },
                Err(log) if begin.elapsed() > START_BOUND => panic!("the pooler did not start:\n{log}"),
                Err(_) => {}
            }
        }
    }

    /// The URL of the superuser, through this pooler.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://admin@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        process::kill9(&mut self.child);
    }
}

fn launch(directory: &TempDir, port: u16, server: &PostgresServer) -> Result<Child, String> {
    let (file, log) = (directory.path().join("pgbouncer.ini"), directory.path().join("log"));
    let (host, server_port) =
        server.address().rsplit_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).unwrap();
    let lines = [
        "[databases]".to_owned(),
        format!("postgres = host={host} port={server_port} dbname=postgres user=admin"),
        "[pgbouncer]".to_owned(),
        format!("listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir ="),
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 3".to_owned(),
    ];
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    if getuid().is_root() {
        chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let output = File::create(&log).unwrap();
    let binary = std::env::var(BINARY_VARIABLE).unwrap_or_else(|_| "/usr/sbin/pgbouncer".to_owned());
    let mut command = unprivileged(binary.as_ref());
    let spawned =
        command.arg(&file).stdin(Stdio::null()).stderr(output.try_clone().unwrap()).stdout(output).spawn();
    let mut child = spawned.unwrap_or_else(|error| {
        panic!(
            "cannot start `{binary}` ({error}): install it with `apt-get install pgbouncer`, or name it in \
             {BINARY_VARIABLE}"
        )
    });
    let begin = Instant::now();
    loop {
        let said = fs::read_to_string(&log).unwrap_or_default();
        if child.try_wait().unwrap().is_some() || begin.elapsed() > START_BOUND {
            process::kill9(&mut child);
            return Err(said);
        }
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(child);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
