//! Transactions of libraries where a body uses the transaction itself, not the connection below it.

use std::ops::{Deref, DerefMut};

/// A transaction of a library, which is rolled back when it is dropped.
#[derive(Debug)]
pub struct Begun<T> {
    transaction: Option<T>,
    dropped: fn(T),
}

impl<T> Begun<T> {
    /// `dropped` rolls the transaction back, unless it was taken out.
    pub(crate) fn new(transaction: T, dropped: fn(T)) -> Self {
        Begun { transaction: Some(transaction), dropped }
    }

    /// For an end that needs nothing else.
    #[expect(clippy::expect_used, reason = "it is taken by what consumes `self`")]
    pub(crate) fn into_inner(mut self) -> T {
        self.transaction.take().expect("it is taken at the end")
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            (self.dropped)(transaction);
        }
    }
}

impl<T> Deref for Begun<T> {
    type Target = T;

    #[expect(clippy::expect_used, reason = "it is taken by what consumes `self`")]
    fn deref(&self) -> &T {
        self.transaction.as_ref().expect("it is taken at the end")
    }
}

impl<T> DerefMut for Begun<T> {
    #[expect(clippy::expect_used, reason = "it is taken by what consumes `self`")]
    fn deref_mut(&mut self) -> &mut T {
        self.transaction.as_mut().expect("it is taken at the end")
    }
}
