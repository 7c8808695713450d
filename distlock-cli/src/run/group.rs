//! The process group of a command.
//!
//! The number of a group is not reused while one of its processes lives. So its leader is reaped only after this
//! program has forgotten the number, or has seen that the group is empty.

use std::io;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::processes::{self, Members};

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

    /// This fails only if no process of the group is left.
    pub(super) fn signal(self, signal: Signal) {
        let _: Result<(), rustix::io::Errno> = kill_process_group(self.0, signal);
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
        if test_kill_process_group(self.0) == Err(rustix::io::Errno::SRCH) {
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
