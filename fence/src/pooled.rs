//! Transactions on connections of pools of `deadpool`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use deadpool::managed::{Manager, Object};

/// A connection with an open transaction. If it is dropped, it is closed, which rolls the transaction back. In the
/// pool, the transaction would stay open until the connection is used again, and other transactions of its key would
/// wait for it.
#[allow(unreachable_pub, reason = "with diesel-async it is reachable")]
pub struct Pooled<M: Manager> {
    object: Option<Object<M>>,
}

impl<M: Manager> Pooled<M> {
    /// Dropping it from now on closes the connection, because a transaction may be open.
    pub(crate) fn new(object: Object<M>) -> Self {
        Pooled { object: Some(object) }
    }

    /// The transaction has ended.
    pub(crate) fn give_back(mut self) {
        drop(self.object.take());
    }
}

impl<M: Manager> Drop for Pooled<M> {
    fn drop(&mut self) {
        drop(self.object.take().map(Object::take));
    }
}

impl<M: Manager> Deref for Pooled<M> {
    type Target = M::Type;

    #[expect(clippy::expect_used, reason = "it is taken by what consumes `self`")]
    fn deref(&self) -> &M::Type {
        self.object.as_ref().expect("it is taken at the end")
    }
}

impl<M: Manager> DerefMut for Pooled<M> {
    #[expect(clippy::expect_used, reason = "it is taken by what consumes `self`")]
    fn deref_mut(&mut self) -> &mut M::Type {
        self.object.as_mut().expect("it is taken at the end")
    }
}

impl<M: Manager> fmt::Debug for Pooled<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooled").finish_non_exhaustive()
    }
}
