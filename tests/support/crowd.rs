//! Very many locks of very many clients, written to a server.

use std::collections::BTreeSet;

/// Much longer than any test runs, in milliseconds.
const LONG: u64 = 3_600_000;
/// The number of commands that are sent at once.
const AT_ONCE: usize = 10_000;

/// The data on the server.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of clients.
    pub clients: usize,
    /// The number of locks. Client `n` holds the locks whose number modulo the number of clients is `n`.
    pub locks: usize,
    /// The clients without a heartbeat.
    pub silent: BTreeSet<usize>,
}

impl Plan {
    /// The id of a client.
    #[must_use]
    pub fn client(&self, number: usize) -> String {
        format!("crowd.{number:05}")
    }

    /// The key of a lock. Keys are in the order of their numbers.
    #[must_use]
    pub fn key(&self, number: usize) -> String {
        format!("tenant:{number:08}:warehouse:berlin-spandau:article:4004182004")
    }

    /// Writes all data, in the format of docs/protocol.md.
    ///
    /// # Panics
    /// If the server is unreachable.
    pub fn write(&self, url: &str) {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let locks = (0..self.locks)
            .map(|lock| (self.key(lock), format!("dl1:{}:{lock}", self.client(lock % self.clients))));
        let records = (0..self.clients).filter(|client| !self.silent.contains(client)).map(|client| {
            // The records are younger than new ones, so they do not become old even if a client reads them slowly.
            let record = format!("{} host-{client} {} crowd 0.1.0 0 0", LONG / 2, 1_000 + client);
            (format!("dl1:i:{}", self.client(client)), record)
        });
        let all: Vec<(String, String)> = locks.chain(records).collect();
        for some in all.chunks(AT_ONCE) {
            let mut pipeline = redis::pipe();
            for (key, value) in some {
                pipeline.cmd("SET").arg(key).arg(value).arg("PX").arg(LONG).ignore();
            }
            pipeline.exec(&mut connection).unwrap();
        }
    }
}
