//! Several keys that one request collects. Their time limits count from the moment when the request has all of them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The holds of one request for several keys share it, until the request has all keys.
#[derive(Debug, Default)]
pub(crate) struct KeyCollection {
    /// The number of outcomes that the requester has not noticed.
    unseen: AtomicU32,
    has_begun: AtomicBool,
}

impl KeyCollection {
    /// The request asks for more keys: receivers of earlier outcomes are gone.
    pub(crate) fn asks(&self) {
        self.unseen.store(0, Ordering::SeqCst);
    }

    pub(crate) fn answered(&self) {
        self.unseen.fetch_add(1, Ordering::SeqCst);
    }

    /// One of the keys was acquired.
    pub(crate) fn acquired(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
        self.answered();
    }

    /// Whether one of the keys was acquired, now or before. Then the store has answered since the request began.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// The requester has noticed an outcome.
    pub(crate) fn looked(&self) {
        let less = |unseen: u32| unseen.checked_sub(1);
        // Fails at zero, which is normal for an outcome that was made up because the engine is gone.
        let _ = self.unseen.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// True if the request waits for locks; false if it waits to be polled.
    pub(crate) fn is_attended(&self) -> bool {
        self.unseen.load(Ordering::SeqCst) == 0
    }
}
