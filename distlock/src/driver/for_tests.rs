//! The operations of programs' tests on a manager: see [`testing`](crate::testing).

use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Alive, Core, Requester, SHARDS, Shards};
use crate::backend::Backend;
use crate::error::LostReason;
use crate::observe::Observers;
use crate::protocol::Tuning;

impl Core {
    /// Starts a manager's engine. Tasks of `runtime` do the work of the I/O thread.
    pub(crate) fn start_on(
        runtime: Handle,
        client: Arc<str>,
        backend: Arc<dyn Backend>,
        tuning: &Tuning,
        seed: u64,
        observers: Observers,
    ) -> Arc<Alive> {
        let core = Arc::new(Core::new(client, backend, tuning, SHARDS, seed, observers));
        core.io.run_on(&core, runtime);
        Arc::new(Alive::new(core))
    }

    /// Every lease of this process for `key` is lost, as if no renewal had been confirmed in time.
    pub(crate) fn lose_key(self: &Arc<Self>, key: &Arc<str>) {
        let expired = |engine: &Shards<Requester>, now| {
            engine.on_key(now, key, |step| step.lose_all(LostReason::Expired)).1
        };
        drop(self.event(expired));
    }
}
