//! The backends that one suite runs on, and [`suite!`](crate::suite), which runs it.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock::{LockManager, LockManagerBuilder};

use crate::{ClusterServers, QuorumServers, RedisServer, SentinelGroup, ShardServers, eventually, residue};

/// A backend for one test: a separate memory or server, or separate keys on servers that all tests of the process
/// share.
#[derive(Debug)]
pub struct Backend {
    place: Place,
    prefix: String,
}

#[derive(Debug)]
enum Place {
    Memory(LockManager),
    Redis(Box<RedisServer>),
    Sentinel(&'static SentinelGroup),
    Cluster(&'static ClusterServers),
    Quorum(&'static QuorumServers),
    Shards(&'static ShardServers),
}

impl Backend {
    /// A fresh memory backend.
    #[must_use]
    pub fn memory() -> Self {
        Self { place: Place::Memory(LockManager::in_memory()), prefix: String::new() }
    }

    /// A fresh server.
    #[must_use]
    pub fn redis() -> Self {
        Self { place: Place::Redis(Box::new(RedisServer::start())), prefix: String::new() }
    }

    /// Separate keys on the master that sentinels watch.
    #[must_use]
    pub fn sentinel() -> Self {
        Self { place: Place::Sentinel(SentinelGroup::shared()), prefix: unused_prefix() }
    }

    /// Separate keys in a cluster.
    #[must_use]
    pub fn cluster() -> Self {
        Self { place: Place::Cluster(ClusterServers::shared()), prefix: unused_prefix() }
    }

    /// Separate keys on five independent servers.
    #[must_use]
    pub fn quorum() -> Self {
        Self { place: Place::Quorum(QuorumServers::shared()), prefix: unused_prefix() }
    }

    /// Separate keys on three servers that share the keys.
    #[must_use]
    pub fn shards() -> Self {
        Self { place: Place::Shards(ShardServers::shared()), prefix: unused_prefix() }
    }

    /// A builder of managers for these keys. `None` in memory, where each manager has separate locks.
    #[must_use]
    pub fn builder(&self) -> Option<LockManagerBuilder> {
        let url = match &self.place {
            Place::Memory(_) => return None,
            Place::Redis(server) => server.url(),
            Place::Sentinel(group) => group.url(),
            Place::Cluster(cluster) => cluster.url(),
            Place::Quorum(servers) => servers.url(),
            Place::Shards(servers) => servers.url(),
        };
        Some(LockManager::builder().url(url).key_prefix(&*self.prefix))
    }

    /// A manager like that of another process: a new one on a server, the same one in memory.
    pub async fn manager(&self) -> LockManager {
        match (&self.place, self.builder()) {
            (_, Some(builder)) => builder.connect().await.expect("the servers are up"),
            (Place::Memory(manager), _) => manager.clone(),
            _ => unreachable!("only the memory has no builder"),
        }
    }

    /// Whether all managers are the same one, in memory.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self.place, Place::Memory(_))
    }

    /// The prefix of all keys of this test.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The servers that the keys may be written to.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        match &self.place {
            Place::Memory(_) => &[],
            Place::Redis(server) => std::slice::from_ref(&**server),
            Place::Sentinel(group) => group.masters(),
            Place::Cluster(cluster) => cluster.masters(),
            Place::Quorum(servers) => servers.servers(),
            Place::Shards(servers) => servers.servers(),
        }
    }

    /// Waits until no process holds `key`, and on servers until no other data is left.
    pub async fn is_clean(&self, key: &str) {
        let manager = self.manager().await;
        eventually("the lock is free", async || manager.inspect(key).await.unwrap().is_none()).await;
        self.has_no_residue().await;
    }

    /// Waits until no server has any key of this test.
    pub async fn has_no_residue(&self) {
        residue::none_below(self.servers(), &self.prefix).await;
    }
}

/// A prefix that no other test of this process uses.
fn unused_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("rule{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Runs rules on every backend. Each rule is written once, as `async fn(Backend)`.
///
/// The rules after `not on quorum:` need abilities that a quorum does not have. The rules after `only on quorum:` run
/// only there.
#[macro_export]
macro_rules! suite {
    (
        $($rule:ident),* $(,)?
        $(; not on quorum: $($other:ident),+ $(,)?)?
        $(; only on quorum: $($quorum:ident),+ $(,)?)?
    ) => {
        mod memory {
            $crate::suite!(@ memory: $($rule,)* $($($other,)+)?);
        }
        mod redis {
            $crate::suite!(@ redis: $($rule,)* $($($other,)+)?);
        }
        mod sentinel {
            $crate::suite!(@ sentinel: $($rule,)* $($($other,)+)?);
        }
        mod cluster {
            $crate::suite!(@ cluster: $($rule,)* $($($other,)+)?);
        }
        mod quorum {
            $crate::suite!(@ quorum: $($rule,)* $($($quorum,)+)?);
        }
    };
    (@ $backend:ident: $($rule:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                super::$rule($crate::Backend::$backend()).await;
            }
        )*
    };
}
