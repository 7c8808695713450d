//! The cores of the client and its server.
//!
//! One task and a server wake each other in turn. The kernel puts both on one core, or each on its own core, and leaves
//! them there for seconds. A lock takes several times as long in one case as in the other. So measurements with one
//! task are made in both cases, each for all contenders.

use std::fs;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Result;

/// The cores of the client's threads and of the server's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// The kernel chooses.
    Any,
    /// All threads of the client on one core, and all threads of the server on another one.
    Apart,
    /// All threads on one core.
    Shared,
}

/// The former cores are restored when this is dropped.
#[derive(Debug)]
pub struct Pinned {
    server: u32,
    before: CpuSet,
}

impl Cores {
    /// Moves this process and `server` to these cores.
    ///
    /// # Errors
    /// If there are not enough cores, or the kernel refuses.
    pub fn pin(self, server: u32) -> Result<Pinned> {
        let before = sched_getaffinity(None)?;
        let pinned = Pinned { server, before };
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
        let first = cores.next().ok_or("no core")?;
        let (client, server) = match self {
            Cores::Any => return Ok(pinned),
            Cores::Apart => (first, cores.next().ok_or("the bench needs two cores")?),
            Cores::Shared => (first, first),
        };
        pinned.set(&only(client), &only(server))?;
        Ok(pinned)
    }
}

impl Pinned {
    fn set(&self, client: &CpuSet, server: &CpuSet) -> Result<()> {
        pin_threads(std::process::id(), client)?;
        pin_threads(self.server, server)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The kernel has allowed it before.
        drop(self.set(&self.before, &self.before));
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

fn pin_threads(process: u32, to: &CpuSet) -> Result<()> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread: i32 = thread?.file_name().to_string_lossy().parse()?;
        match sched_setaffinity(Pid::from_raw(thread), to) {
            // The thread has ended since then.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
