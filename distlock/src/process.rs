//! Which process this is.
//!
//! `fork` copies a manager without its I/O thread, and with its mutexes as they happened to be: in the child
//! nothing would answer, and what was sent would go out over the parent's connections.
//!
//! Every section checks several times whether its process was forked. If a lock is handed on within the process,
//! `getpid` takes longer than all other work on it. So a handler that the C library's `fork` calls in the child counts
//! forks. A process can also be copied without the library. So the kernel is asked before anything is sent, which takes
//! much longer than `getpid`.

use crate::protocol::{Failure, StoreError};

/// The process that something was made in.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// `None`: the handler could not be registered.
    #[cfg(unix)]
    forks: Option<forkguard::atfork::Guard>,
    id: u32,
}

impl Process {
    pub(crate) fn current() -> Self {
        Process {
            #[cfg(unix)]
            forks: forkguard::atfork::Guard::try_new().ok(),
            id: std::process::id(),
        }
    }

    /// Whether this process was forked from the process that created this value. Must be checked before any mutex is
    /// locked, because the thread that may hold the mutex does not exist here.
    #[cfg(unix)]
    pub(crate) fn is_another(&self) -> bool {
        match &self.forks {
            // Asks a copy, because a guard reports each fork only once.
            Some(forks) => forks.clone().detected_fork(),
            None => self.id != std::process::id(),
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn is_another(&self) -> bool {
        false
    }

    /// The same, however this process was copied. Takes a system call.
    pub(crate) fn is_any_other(&self) -> bool {
        self.id != std::process::id()
    }
}

impl Default for Process {
    fn default() -> Self {
        Process::current()
    }
}

/// The reply of every operation in a forked process.
pub(crate) fn forked() -> StoreError {
    StoreError::new(
        Failure::Refused,
        "this process was forked after the manager was made: connect again in the child",
    )
}
