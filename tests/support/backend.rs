//! The backends that one suite runs on, and [`suite!`](crate::suite) which runs it.

use distlock::LockManager;

use crate::{RedisServer, eventually, residue};

/// A backend of a test's own.
#[derive(Debug)]
pub enum Backend {
    /// In memory.
    Memory(LockManager),
    /// One Redis server.
    Redis(RedisServer),
}

impl Backend {
    /// A fresh memory backend.
    #[must_use]
    pub fn memory() -> Self {
        Self::Memory(LockManager::in_memory())
    }

    /// A fresh server.
    #[must_use]
    pub fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    /// The server, where there is one.
    #[must_use]
    pub fn server(&self) -> Option<&RedisServer> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(server) => Some(server),
        }
    }

    /// A manager as another process would have it: of its own on a server, the same one in memory.
    pub async fn manager(&self) -> LockManager {
        match self {
            Self::Memory(manager) => manager.clone(),
            Self::Redis(server) => LockManager::connect(&server.url()).await.expect("the server is up"),
        }
    }

    /// Waits until nobody holds `key`, and on a server until nothing else is left either.
    pub async fn is_clean(&self, key: &str) {
        let manager = self.manager().await;
        eventually("the lock is free", async || manager.inspect(key).await.unwrap().is_none()).await;
        if let Some(server) = self.server() {
            residue::none(server).await;
        }
    }
}

/// Runs rules, written once as `async fn(Backend)`, on every backend.
#[macro_export]
macro_rules! suite {
    ($($rule:ident),+ $(,)?) => {
        mod memory {
            $crate::suite!(@ memory: $($rule),+);
        }
        mod redis {
            $crate::suite!(@ redis: $($rule),+);
        }
    };
    (@ $backend:ident: $($rule:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                super::$rule($crate::Backend::$backend()).await;
            }
        )+
    };
}
