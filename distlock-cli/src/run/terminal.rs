//! The terminal: a command in a separate process group may read from it only while that group is in the foreground.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, getpgrp, getpid};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::group::Group;
use super::processes::is_alone_in;

/// The terminal of this session, which the process groups of `distlock run` and of the command share. SIGTTOU is
/// blocked (see [`signals`](super::signals)), so this process can take the terminal from the background.
#[derive(Debug)]
pub(super) struct Terminal {
    terminal: OwnedFd,
    own: Pid,
}

impl Terminal {
    /// `None`: there is none.
    pub(super) fn open() -> Option<Terminal> {
        let terminal = File::options().read(true).write(true).open("/dev/tty").ok()?.into();
        Some(Terminal { terminal, own: getpgrp() })
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.terminal).ok()
    }

    pub(super) fn is_lent_to(&self, group: Group) -> bool {
        self.foreground() == Some(group.pid())
    }

    /// Puts `group` into the foreground if this process is in the foreground. Returns whether the group is there now.
    pub(super) fn lend(&self, group: Group) -> bool {
        if self.foreground() == Some(self.own) {
            // The group may have just ended.
            let _: Result<(), rustix::io::Errno> = tcsetpgrp(&self.terminal, group.pid());
        }
        self.is_lent_to(group)
    }

    /// Puts `group` into the foreground only if this process is alone in its group. Otherwise another process of a
    /// pipeline or of a script may want to read from the terminal.
    pub(super) fn lend_if_alone(&self, group: Group) {
        if self.foreground() == Some(self.own) && is_alone_in(getpid(), self.own) {
            self.lend(group);
        }
    }

    /// Takes the terminal back, but only from `group`, or from a group that `group` has left in the foreground.
    pub(super) fn take_back(&self, group: Group) {
        let Some(foreground) = self.foreground() else { return };
        if foreground == group.pid() || Group::led_by(foreground).is_gone() {
            // The terminal may have been closed.
            let _: Result<(), rustix::io::Errno> = tcsetpgrp(&self.terminal, self.own);
        }
    }
}
