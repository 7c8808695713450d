//! What `/proc` says about processes.

use rustix::process::Pid;

/// The state of a process, as `ps -o stat,pgid,nlwp` shows it.
struct Process {
    state: char,
    group: i32,
    threads: u32,
}

impl Process {
    /// `None`: there is no such process, or this one may not see it.
    fn read(number: i32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name, in parentheses, may contain any characters.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let threads = fields.nth(14)?.parse().ok()?;
        Some(Process { state, group, threads })
    }

    /// Whether it only waits until its parent reads its status. (If its first thread has ended before the others, it
    /// has the same state.)
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

fn numbers() -> Option<impl Iterator<Item = i32>> {
    Some(std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The process group of a process.
pub(super) fn group_of(number: i32) -> Option<i32> {
    Process::read(number).map(|process| process.group)
}

/// Whether the group has this process only.
pub(super) fn is_alone_in(this: Pid, group: Pid) -> bool {
    let (this, group) = (this.as_raw_nonzero().get(), group.as_raw_nonzero().get());
    numbers().is_some_and(|mut all| !all.any(|number| number != this && group_of(number) == Some(group)))
}

/// Whether this process belongs to the group and has not ended.
pub(super) fn lives_in(number: i32, group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    Process::read(number).is_some_and(|process| process.group == group && !process.has_ended())
}

/// The processes of a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// One that has not ended.
    Living(i32),
    /// The group still exists only because a parent has not read the status of its processes. The first process of a
    /// container often reads none.
    AllEnded,
    /// This process may not see the processes of other users, or `/proc` belongs to another container.
    Unknown,
}

/// Looks at all processes of the machine.
pub(super) fn members_of(group: Pid) -> Members {
    let (Some(_), Some(numbers)) = (Process::read(1), numbers()) else { return Members::Unknown };
    let group = group.as_raw_nonzero().get();
    let mut found = Members::Unknown;
    for number in numbers {
        match Process::read(number).filter(|process| process.group == group) {
            Some(process) if process.has_ended() => found = Members::AllEnded,
            Some(_) => return Members::Living(number),
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, getpgrp, getpid, waitid};

    use super::*;

    #[test]
    fn a_process_is_read_from_its_status() {
        let this = Process::read(getpid().as_raw_nonzero().get()).unwrap();
        assert_eq!(this.group, getpgrp().as_raw_nonzero().get());
        assert!(this.threads >= 1 && !this.has_ended());
    }

    #[test]
    fn a_process_whose_status_was_not_read_has_ended() {
        use std::os::unix::process::CommandExt;
        let mut child =
            Command::new("cat").stdin(std::process::Stdio::piped()).process_group(0).spawn().unwrap();
        let group = Pid::from_child(&child);
        let number = group.as_raw_nonzero().get();
        assert!(members_of(group) == Members::Living(number) && lives_in(number, group));
        assert!(!lives_in(number, getpgrp()));
        drop(child.stdin.take());
        waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        assert!(members_of(group) == Members::AllEnded && !lives_in(number, group));
        child.wait().unwrap();
        assert_eq!(members_of(group), Members::Unknown);
    }
}
