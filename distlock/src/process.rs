//! Which process this is.
//!
//! `fork` copies a manager without its I/O thread, and with its mutexes as they happened to be: in the child
//! nothing would answer, and what was sent would go out over the parent's connections.

use crate::protocol::{Failure, OpError, Who};

/// The process that something was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Process(std::process::id())
    }

    /// This process was forked from the one that is meant. To be asked before any mutex is locked: the thread
    /// that may hold it does not exist here.
    pub(crate) fn is_another(self) -> bool {
        self != Process::current()
    }
}

/// What others may learn of this process.
pub(crate) fn who() -> Who {
    let program = std::env::current_exe().ok();
    let program = program.as_ref().and_then(|path| path.file_name());
    Who {
        host: rustix::system::uname().nodename().to_str().ok().map(str::to_owned),
        pid: Some(std::process::id()),
        program: program.map(|name| name.to_string_lossy().into_owned()),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        met: None,
    }
}

/// What every operation answers in a forked process.
pub(crate) fn forked() -> OpError {
    OpError::new(
        Failure::Refused,
        "this process was forked after the manager was made: connect again in the child",
    )
}
