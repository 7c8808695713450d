//! A counter that loses updates without mutual exclusion: read, work, write.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::RedisServer;

/// Counts by separate reads and writes, so two holders at a time would lose updates.
#[derive(Debug, Default)]
pub struct Tally {
    value: AtomicU64,
}

impl Tally {
    /// Reads, lets others run, and writes. Two calls at the same time lose an update.
    pub async fn increment(&self) {
        let read = self.value.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.value.store(read + 1, Ordering::SeqCst);
    }

    /// Like [`increment`](Self::increment), for threads.
    pub fn increment_blocking(&self) {
        let read = self.value.load(Ordering::SeqCst);
        std::thread::yield_now();
        self.value.store(read + 1, Ordering::SeqCst);
    }

    /// The count.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.value.load(Ordering::SeqCst)
    }

    /// Counts between processes, in a key of the server, over the caller's connection.
    pub fn increment_key(connection: &mut redis::Connection, key: &str) {
        let read: u64 = redis::cmd("GET").arg(key).query::<Option<u64>>(connection).unwrap().unwrap_or(0);
        std::thread::yield_now();
        redis::cmd("SET").arg(key).arg(read + 1).exec(connection).unwrap();
    }

    /// The count of processes in a key.
    #[must_use]
    pub fn of_key(server: &RedisServer, key: &str) -> u64 {
        server.get(key).map_or(0, |value| value.parse().unwrap())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The positive control: without exclusion, the tally does lose updates. So a full count proves exclusion.
    #[tokio::test]
    async fn without_exclusion_updates_are_lost() {
        let tally = Arc::new(Tally::default());
        let tasks: Vec<_> = (0..50)
            .map(|_| tally.clone())
            .map(|it| tokio::spawn(async move { it.increment().await }))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(tally.value() < 50);
    }
}
