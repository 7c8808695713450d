//! Several keys that one request collects: what it has counts from the moment at which it has all of them.

use std::sync::atomic::{AtomicU32, Ordering};

/// Shared by the holds of one request for several keys, until it has all of them.
#[derive(Debug, Default)]
pub(crate) struct KeyCollection {
    /// Answers that whoever made the request has not looked at.
    unseen: AtomicU32,
}

impl KeyCollection {
    /// It asks for more keys; whoever was to be told of earlier ones is gone.
    pub(crate) fn asks(&self) {
        self.unseen.store(0, Ordering::SeqCst);
    }

    pub(crate) fn answered(&self) {
        self.unseen.fetch_add(1, Ordering::SeqCst);
    }

    /// An answer was looked at.
    pub(crate) fn looked(&self) {
        let less = |unseen: u32| unseen.checked_sub(1);
        // Fails if there is none, as for an answer that was made up because the engine is gone.
        let _ = self.unseen.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// The request is waiting for the locks, not for whoever made it.
    pub(crate) fn is_attended(&self) -> bool {
        self.unseen.load(Ordering::SeqCst) == 0
    }
}
