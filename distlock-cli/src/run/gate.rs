//! The start of a command: a process waits at a gate before it becomes the command.
//!
//! So the guardian knows the command's process group before the command runs. If `distlock run` is killed before it
//! opens the gate, the command never runs.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};

use super::signals;
use crate::args;
use crate::exit::Exit;

/// A pipe whose end the command inherits. One byte opens the gate. Later bytes report that the lock is lost. The pipe
/// closes when this process ends.
#[derive(Debug)]
pub(super) struct Gate {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Gate {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        // The command inherits only this end.
        fcntl_setfd(&reader, FdFlags::empty())?;
        Ok(Gate { reader, writer })
    }

    /// The number of the end that the command inherits.
    pub(super) fn number(&self) -> i32 {
        self.reader.as_fd().as_raw_fd()
    }

    pub(super) fn open(&self) -> io::Result<()> {
        rustix::io::write(&self.writer, b"!")?;
        Ok(())
    }

    pub(super) fn say_lost(&self) {
        // The pipe has room for this. A command that has closed its end does not need the message.
        let _: rustix::io::Result<usize> = rustix::io::write(&self.writer, b"lost\n");
    }
}

/// Waits at the gate, and becomes the command. Returns only on failure.
pub(crate) fn begin(options: &args::Begin) -> Exit {
    signals::unblock();
    let mut opened = [0];
    let read = File::open(format!("/dev/fd/{}", options.gate)).and_then(|mut gate| gate.read(&mut opened));
    match read {
        Ok(1) => {}
        Ok(_) => {
            return Exit::Lost.because("the lock was lost, or `distlock run` has ended: nothing was run");
        }
        Err(error) => return Exit::NotExecutable.because(&format!("the gate: {error}")),
    }
    let (path, arguments) = options.program.parts();
    let error = Command::new(&path).args(arguments).exec();
    let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::NotExecutable };
    exit.because(&format!("{}: {error}", path.display()))
}
