//! A store that the program provides.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::adapter::StoreBackend;
use crate::backend::{Backend, ConnectOn, Tuning};
use crate::error::LockError;
use distlock_store::LockStore;
use distlock_store::kit::sync::Locked;

/// A store that no manager uses yet. Clones of a builder share it.
#[derive(Clone)]
pub(super) struct StoreSlot(Arc<Locked<Option<MakeBackend>>>);

/// Opens the store for a client, with a key prefix.
type MakeBackend = Box<dyn FnOnce(Arc<str>, String, ConnectOn) -> Opened + Send>;

/// A store as a manager uses it.
pub(super) struct Opened {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) tuning: Tuning,
    pub(super) longest_ttl: Option<Duration>,
    /// How long one attempt to connect may take.
    pub(super) longest_attempt: Duration,
}

impl StoreSlot {
    pub(super) fn new(store: impl LockStore) -> Self {
        let open = |client, prefix, connect| {
            let backend = StoreBackend::new(store, client, prefix, connect);
            let (tuning, abilities) = (backend.tuning().clone(), backend.abilities());
            let longest_ttl = abilities.longest_ttl;
            let longest_attempt = abilities.connects_within.unwrap_or_default();
            Opened { backend, tuning, longest_ttl, longest_attempt }
        };
        StoreSlot(Arc::new(Locked::new(Some(Box::new(open)))))
    }

    /// # Errors
    ///
    /// Another manager has taken it.
    pub(super) fn open(
        &self,
        client: &Arc<str>,
        prefix: String,
        connect: ConnectOn,
    ) -> Result<Opened, LockError> {
        let open = self.0.lock().take();
        let open = open.ok_or_else(|| {
            LockError::options("the store already has a manager: give each builder its own store")
        })?;
        Ok(open(client.clone(), prefix, connect))
    }
}

impl fmt::Debug for StoreSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreSlot(..)")
    }
}
