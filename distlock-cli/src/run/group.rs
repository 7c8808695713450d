//! The process group of a command.
//!
//! The number of a group is not reused while one of its processes lives. So its leader is reaped only after this
//! program has forgotten the number, or has seen that the group is empty.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process, test_kill_process_group,
    waitid,
};

use super::processes::{self, Members};

/// How long the processes of a group may take to die of SIGKILL.
pub(super) const TO_DIE: Duration = Duration::from_millis(100);

/// The last words about a command that was ended.
const ENDED: &str = "the command was ended";
/// The same if a process has survived the signal.
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

    /// Has no effect on processes that run as another user (`sudo`).
    pub(super) fn signal(self, signal: Signal) {
        let _: Result<(), Errno> = kill_process_group(self.0, signal);
    }

    /// Sends SIGKILL.
    pub(super) fn kill(self, now: Duration) -> Killed {
        self.signal(Signal::KILL);
        Killed { group: self, look_at: now + TO_DIE, has_survivor: false }
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

/// A group that got SIGKILL.
#[derive(Debug)]
pub(super) struct Killed {
    group: Group,
    /// When its processes should have ended.
    look_at: Duration,
    has_survivor: bool,
}

impl Killed {
    /// Looks for a process that runs as another user and has survived. True at most once. The reply to the signal does
    /// not show such a process, because the kernel refuses a signal to a group only if no process may get it.
    pub(super) fn finds_survivor(&mut self, now: Duration) -> bool {
        self.finds(now, |member| test_kill_process(member) == Err(Errno::PERM))
    }

    fn finds(&mut self, now: Duration, is_of_another_user: impl FnOnce(Pid) -> bool) -> bool {
        if self.has_survivor || now < self.look_at {
            return false;
        }
        self.has_survivor = match processes::members_of(self.group.0) {
            Members::Living(number) => Pid::from_raw(number).is_some_and(is_of_another_user),
            Members::AllEnded => false,
            Members::Unknown => test_kill_process_group(self.group.0) == Err(Errno::PERM),
        };
        self.has_survivor
    }
}

/// The last words about a command that was asked to end, or killed.
pub(super) fn last_words(killed: Option<&Killed>) -> &'static str {
    if killed.is_some_and(|killed| killed.has_survivor) { NOT_ENDED } else { ENDED }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use std::thread;

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::super::clock;
    use super::*;

    /// As root, the test has a real process of another user. No other user can start one, so there the test says which
    /// process counts as one.
    #[test]
    fn a_process_of_another_user_survives() {
        let (is_root, nobody) = (geteuid().is_root(), Uid::from_raw(65534));
        let cat = |group, user| {
            let mut cat = Command::new("cat");
            if is_root {
                cat.uid(user);
            }
            cat.stdin(Stdio::piped()).process_group(group).spawn().unwrap()
        };
        let mut leader = cat(0, nobody.as_raw());
        let group = Group::of(leader.id()).unwrap();
        let mut member = cat(group.0.as_raw_nonzero().get(), 0);
        let other = Pid::from_child(&member);
        let outlived = thread::spawn(move || {
            let now = clock::now();
            let mut killed = if is_root {
                // Only this thread becomes the other user.
                set_thread_res_uid(nobody, nobody, nobody).unwrap();
                group.kill(now)
            } else {
                leader.kill().unwrap();
                Killed { group, look_at: now + TO_DIE, has_survivor: false }
            };
            leader.wait().unwrap();
            let found = [now, now + TO_DIE, now + TO_DIE].map(|now| {
                if is_root { killed.finds_survivor(now) } else { killed.finds(now, |member| member == other) }
            });
            (found, last_words(Some(&killed)))
        });
        let outlived = outlived.join();
        assert!(!group.is_gone());
        member.kill().unwrap();
        member.wait().unwrap();
        assert_eq!(outlived.unwrap(), ([false, true, false], NOT_ENDED));
    }

    #[test]
    fn processes_of_this_user_do_not_survive() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
        let group = Group::of(child.id()).unwrap();
        let mut killed = group.kill(Duration::ZERO);
        // Also while it dies, and before its status is read.
        assert!(!killed.finds_survivor(TO_DIE));
        child.wait().unwrap();
        assert!(!killed.finds_survivor(TO_DIE) && group.is_gone());
        assert_eq!(last_words(Some(&killed)), ENDED);
    }
}
