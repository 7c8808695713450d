//! The process group of a command.
//!
//! The number of a group is not reused while one of its processes lives. So its leader is reaped only after this
//! program has forgotten the number, or has seen that the group is empty.

use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::processes::{self, Members};
use crate::out::complain;

/// The last words about a command that got SIGKILL.
pub(super) const ENDED: &str = "the command was ended";
/// The same if the kernel has refused the signal.
const NOT_ENDED: &str = "the command could not be ended, and has ended now";

/// The process group of a command and its children. (A child that begins a new session leaves it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group(Pid);

impl Group {
    /// The group of a child that was started as its leader.
    pub(super) fn of(child: u32) -> io::Result<Self> {
        let number = i32::try_from(child).ok().and_then(Pid::from_raw);
        number.map(Group).ok_or_else(|| io::Error::other("the command has no process id"))
    }

    /// A group of another program.
    pub(super) fn led_by(leader: Pid) -> Self {
        Group(leader)
    }

    pub(super) fn pid(self) -> Pid {
        self.0
    }

    /// Has no effect if no process of the group is left, or if all of them run as another user (`sudo`).
    pub(super) fn signal(self, signal: Signal) {
        let _: Result<(), Errno> = kill_process_group(self.0, signal);
    }

    /// Sends SIGKILL, and returns the last words about the command.
    pub(super) fn kill(self) -> &'static str {
        last_words(kill_process_group(self.0, Signal::KILL))
    }

    /// Also continues the group, because a stopped process gets a signal only when it continues.
    pub(super) fn ask_to_end(self, signal: Signal) {
        self.signal(signal);
        self.signal(Signal::CONT);
    }

    /// The signal that has stopped the leader, if it was stopped since the last call. The leader is a child of this
    /// process.
    pub(super) fn stopped_by(self) -> Option<Signal> {
        let stopped = waitid(WaitId::Pid(self.0), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        stopped.ok()??.stopping_signal().and_then(Signal::from_named_raw)
    }

    /// Reaps the processes of the group that this process has inherited because it is the first one of a container.
    /// Only after the leader was reaped.
    pub(super) fn reap_inherited(self) {
        let ended = || waitid(WaitId::Pgid(Some(self.0)), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        while matches!(ended(), Ok(Some(_))) {}
    }

    /// Whether no process is left. (A process of another user counts.)
    pub(super) fn is_gone(self) -> bool {
        self.has_gone(&mut None)
    }

    /// The same for repeated calls. While the process `seen` has not ended, no other one is looked at.
    pub(super) fn has_gone(self, seen: &mut Option<i32>) -> bool {
        if test_kill_process_group(self.0) == Err(Errno::SRCH) {
            return true;
        }
        if seen.is_some_and(|number| processes::lives_in(number, self.0)) {
            return false;
        }
        match processes::members_of(self.0) {
            Members::AllEnded => true,
            Members::Living(number) => {
                *seen = Some(number);
                false
            }
            Members::Unknown => false,
        }
    }
}

fn last_words(killed: Result<(), Errno>) -> &'static str {
    if killed != Err(Errno::PERM) {
        return ENDED;
    }
    complain("the command runs as another user and cannot be ended: it may outlive the lease");
    NOT_ENDED
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::thread;

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::*;

    #[test]
    fn a_command_of_another_user_is_not_ended() {
        assert_eq!(last_words(Err(Errno::PERM)), NOT_ENDED);
        assert_eq!((last_words(Ok(())), last_words(Err(Errno::SRCH))), (ENDED, ENDED));
        if !geteuid().is_root() {
            // Only root can send a signal as another user than the command's.
            return;
        }
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let group = Group::of(child.id()).unwrap();
        // Only this thread becomes the other user.
        let as_another = thread::spawn(move || {
            let other = Uid::from_raw(65534);
            set_thread_res_uid(other, other, other).map(|()| group.kill())
        });
        assert_eq!(as_another.join().unwrap(), Ok(NOT_ENDED));
        assert!(!group.is_gone());
        assert_eq!(group.kill(), ENDED);
        child.wait().unwrap();
    }
}
