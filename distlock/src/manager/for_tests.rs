//! Managers that share locks in memory, as processes share a server.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Defaults, LockManager, connecting};
use crate::backend::memory::{Memory, MemoryStore};
use crate::driver::{Core, Executor, SHARDS};
use crate::observe::Observers;

impl LockManager {
    /// A store for managers that share locks.
    pub(crate) fn shared_memory() -> Arc<MemoryStore> {
        MemoryStore::new(LockManager::memory_tuning())
    }

    /// A manager of `store`. Without `runtime`, it has its own thread.
    pub(crate) fn of_shared_memory(store: Arc<MemoryStore>, runtime: Option<Handle>) -> Self {
        let (client, observers) = (connecting::client_id(None), Observers::standard());
        let memory = Memory::new(&client, String::new(), store);
        LockManager::using_memory(client, memory, Defaults::default(), |client, memory, tuning, seed| {
            match runtime {
                Some(runtime) => {
                    let executor = Executor::Runtime(runtime);
                    Core::start_on(executor, client, memory, (tuning, SHARDS), seed, observers)
                }
                None => Core::start(client, memory, tuning, seed, observers),
            }
        })
    }
}
