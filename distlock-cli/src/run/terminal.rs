//! The terminal: a command in a process group of its own may read from it only while that group is in the foreground.

use std::fs::File;
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// A terminal that was given to a command. It is taken back when this is dropped.
#[derive(Debug)]
pub(super) struct Lent {
    terminal: OwnedFd,
    own: Pid,
}

impl Lent {
    /// Gives the terminal to `group`, if this process has one in the foreground.
    pub(super) fn to(group: Pid) -> Option<Lent> {
        let terminal: OwnedFd = File::options().read(true).write(true).open("/dev/tty").ok()?.into();
        let own = getpgrp();
        if tcgetpgrp(&terminal).ok()? != own {
            return None;
        }
        tcsetpgrp(&terminal, group).ok()?;
        Some(Lent { terminal, own })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // A process in the background that changes the foreground is stopped by SIGTTOU, unless it blocks that.
        let mut background = SigSet::empty();
        background.add(Signal::SIGTTOU);
        let blocked = background.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
        // The terminal may be gone.
        let _: Result<(), rustix::io::Errno> = tcsetpgrp(&self.terminal, self.own);
        if let Ok(before) = blocked {
            let _: nix::Result<()> = before.thread_set_mask();
        }
    }
}
