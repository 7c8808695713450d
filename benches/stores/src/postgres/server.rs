//! A PostgreSQL of our own, which waits for the disk as it does where it is used in earnest.

use std::time::Duration;

use distlock_fixtures::PostgresServer;
use tokio_postgres::Client;

use crate::Result;
use crate::cpu::cpu_time_of;

/// Whose connections are not counted.
const OBSERVER: &str = "observer";

/// A server with its data on disk, and somebody who looks at it from outside.
pub(crate) struct PostgresOnDisk {
    server: PostgresServer,
    observer: Client,
}

impl PostgresOnDisk {
    /// With the tables of the rivals.
    pub(crate) async fn start() -> Result<Self> {
        let server = PostgresServer::with(&["fsync=on", "max_connections=200", "shared_buffers=128MB"]);
        server.run(include_str!("rivals.sql")).await;
        let url = format!("{}?application_name={OBSERVER}", server.url());
        let (observer, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(PostgresOnDisk { server, observer })
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// How many transactions there were: each statement is one. Whoever is still connected has reported those before
    /// the last second at least.
    pub(crate) async fn requests(&self) -> Result<u64> {
        let sql =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        let count: i64 = self.observer.query_one(sql, &[]).await?.try_get(0)?;
        Ok(u64::try_from(count)?)
    }

    /// Waits until all others have gone, and with them has reported what they did.
    pub(crate) async fn until_alone(&self) -> Result<()> {
        let others = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND application_name <> $1";
        while self.observer.query_one(others, &[&OBSERVER]).await?.try_get::<_, i64>(0)? > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// CPU time that all of its processes have used.
    pub(crate) async fn cpu_time(&self) -> Result<Duration> {
        let backend: i32 = self.observer.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        let status = std::fs::read_to_string(format!("/proc/{backend}/stat"))?;
        let parent =
            status.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        cpu_time_of(parent.ok_or("no parent")?)
    }
}
