//! Transactions of libraries where a body uses the transaction itself, not the connection below it.

use std::ops::{Deref, DerefMut};

/// A transaction of a library, which is rolled back when it is dropped.
#[derive(Debug)]
pub struct Begun<T>(pub(crate) T);

impl<T> Deref for Begun<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Begun<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
