//! A mutex that is never poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A value behind a mutex, whose [`lock`](Self::lock) never fails.
///
/// No foreign code runs while it is held, so a panic there would be a bug of this library. To continue with its data is
/// safe, because deadlines end forgotten leases. It is also better than failing every later operation.
#[derive(Debug, Default)]
pub struct Locked<T: ?Sized>(Mutex<T>);

impl<T> Locked<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Locked(Mutex::new(value))
    }

    /// Waits until no other thread holds it. It is held until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: another thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_who_holds_it_keeps_nobody_out() {
        let locked = Locked::new(1);
        let panics = || {
            *locked.lock() = 2;
            panic!("while it is held");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(locked.try_lock().as_deref(), Some(&2));
        let _held = locked.lock();
        assert!(locked.try_lock().is_none());
    }
}
