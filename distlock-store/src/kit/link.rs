//! The connection of a store to its server.

use std::fmt;
use std::sync::Arc;

use crate::kit::sync::Locked;

/// The connection, or several that are replaced together, while there are any.
pub struct Link<T>(Locked<Option<Arc<T>>>);

impl<T> Link<T> {
    /// Commands use this connection from now on. `None`: no commands can be sent.
    pub fn set(&self, connection: Option<Arc<T>>) {
        *self.0.lock() = connection;
    }

    /// The connection, if there is one now.
    #[must_use]
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }
}

impl<T> Default for Link<T> {
    fn default() -> Self {
        Link(Locked::new(None))
    }
}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("is_up", &self.get().is_some()).finish()
    }
}
