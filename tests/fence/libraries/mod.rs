//! The libraries other than sqlx, each with one of its ways to get a connection.

pub(crate) mod asynchronous;
pub(crate) mod blocking;
pub(crate) mod pools;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

/// A library, and an observer of its database.
#[derive(Clone)]
pub(crate) struct On<P, O> {
    pool: P,
    observer: O,
}

impl<P, O> On<P, O> {
    pub(crate) fn new(pool: P, observer: O) -> Self {
        On { pool, observer }
    }

    pub(crate) fn pool(&self) -> &P {
        &self.pool
    }
}

/// Connections without a pool of their library. The next section gets the connection in the state in which the last one
/// left it.
pub(crate) struct Idle<C> {
    url: String,
    idle: Arc<Mutex<Vec<C>>>,
}

impl<C> Clone for Idle<C> {
    fn clone(&self) -> Self {
        Idle { url: self.url.clone(), idle: Arc::clone(&self.idle) }
    }
}

impl<C> Idle<C> {
    fn at(url: String) -> Self {
        Idle { url, idle: Arc::default() }
    }

    /// A connection that was used before.
    fn used(&self) -> Option<C> {
        self.idle.lock().unwrap().pop()
    }

    /// Takes this connection back when it is dropped.
    fn lend(&self, connection: C) -> Lent<C> {
        Lent { connection: Some(connection), to: Arc::clone(&self.idle) }
    }
}

/// A connection in use.
struct Lent<C> {
    connection: Option<C>,
    to: Arc<Mutex<Vec<C>>>,
}

impl<C> Deref for Lent<C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.connection.as_ref().unwrap()
    }
}

impl<C> DerefMut for Lent<C> {
    fn deref_mut(&mut self) -> &mut C {
        self.connection.as_mut().unwrap()
    }
}

impl<C> Drop for Lent<C> {
    fn drop(&mut self) {
        self.to.lock().unwrap().extend(self.connection.take());
    }
}
