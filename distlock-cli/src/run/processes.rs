//! What `/proc` says about processes.

use std::fs::DirEntry;
use std::io;

use rustix::io::Errno;
use rustix::process::Pid;

/// The state of a process, as `ps -o stat,pgid,nlwp` shows it.
struct Process {
    state: char,
    group: i32,
    threads: u32,
}

/// The result of a look at a process.
enum Seen {
    /// There is no such process, or this one may not see it.
    Gone,
    /// The look has failed, for example because too many files are open. The process may live.
    Unknown,
    Is(Process),
}

impl Process {
    fn look(number: i32) -> Seen {
        Process::of(std::fs::read(format!("/proc/{number}/stat")))
    }

    fn of(stat: io::Result<Vec<u8>>) -> Seen {
        match stat {
            Ok(stat) => Process::parse(&stat).map_or(Seen::Unknown, Seen::Is),
            // Between opening and reading the file, the process may end: ESRCH.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Seen::Gone,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Seen::Gone,
            Err(_) => Seen::Unknown,
        }
    }

    fn parse(stat: &[u8]) -> Option<Process> {
        // The name, in parentheses, may contain any bytes. The kernel also cuts it inside of a character.
        let name_end = stat.iter().rposition(|&byte| byte == b')')?;
        let mut fields = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?.split_whitespace();
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

/// The numbers of all processes. `None`: they could not be read completely.
fn numbers() -> Option<Vec<i32>> {
    let number = |entry: io::Result<DirEntry>| match entry {
        Ok(entry) => entry.file_name().to_str()?.parse().ok().map(Some),
        Err(_) => Some(None),
    };
    std::fs::read_dir("/proc").ok()?.filter_map(number).collect()
}

/// Whether the group has this process only, as far as it can be seen.
pub(super) fn is_alone_in(this: Pid, group: Pid) -> bool {
    let (this, group) = (this.as_raw_nonzero().get(), group.as_raw_nonzero().get());
    let is_another = |number: &i32| {
        *number != this && matches!(Process::look(*number), Seen::Is(process) if process.group == group)
    };
    numbers().is_some_and(|all| !all.iter().any(is_another))
}

/// Whether this process belongs to the group and has not ended.
pub(super) fn lives_in(number: i32, group: Pid) -> bool {
    let group = group.as_raw_nonzero().get();
    matches!(Process::look(number), Seen::Is(process) if process.group == group && !process.has_ended())
}

/// The processes of a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// One that has not ended.
    Living(i32),
    /// The group still exists only because a parent has not read the status of its processes. The first process of a
    /// container often reads none.
    AllEnded,
    /// This process may not see the processes of other users, `/proc` belongs to another container, or a process could
    /// not be examined.
    Unknown,
}

/// Looks at all processes of the machine.
pub(super) fn members_of(group: Pid) -> Members {
    let group = group.as_raw_nonzero().get();
    confirmed(|| match (Process::look(1), numbers()) {
        (Seen::Is(_), Some(numbers)) => scan(group, numbers, Process::look),
        _ => Members::Unknown,
    })
}

/// Scans a second time before all members count as ended. During a scan, a member can start a child whose number the
/// scan has already passed, and end.
fn confirmed(mut scan: impl FnMut() -> Members) -> Members {
    match scan() {
        Members::AllEnded => scan(),
        members => members,
    }
}

fn scan(group: i32, numbers: impl IntoIterator<Item = i32>, look: impl Fn(i32) -> Seen) -> Members {
    let (mut has_ended, mut is_complete) = (false, true);
    for number in numbers {
        match look(number) {
            Seen::Is(process) if process.group != group => {}
            Seen::Is(process) if process.has_ended() => has_ended = true,
            Seen::Is(_) => return Members::Living(number),
            Seen::Unknown => is_complete = false,
            Seen::Gone => {}
        }
    }
    if has_ended && is_complete { Members::AllEnded } else { Members::Unknown }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Read as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use rustix::process::{WaitId, WaitIdOptions, getpgrp, getpid, waitid};

    use super::*;

    #[test]
    fn a_process_is_read_from_its_status() {
        let Seen::Is(this) = Process::look(getpid().as_raw_nonzero().get()) else { panic!("not read") };
        assert_eq!(this.group, getpgrp().as_raw_nonzero().get());
        assert!(this.threads >= 1 && !this.has_ended());
    }

    #[test]
    fn a_process_whose_status_was_not_read_has_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap();
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

    #[test]
    fn a_process_with_a_name_of_any_bytes_lives() {
        let script = r"printf '\377) Z 1' >/proc/$$/comm; echo; read end";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut named = command.spawn().unwrap();
        let group = Pid::from_child(&named);
        named.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let mut ended = Command::new("true").process_group(group.as_raw_nonzero().get()).spawn().unwrap();
        let wait = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&ended)), wait).unwrap();
        let members = members_of(group);
        drop(named.stdin.take());
        named.wait().unwrap();
        ended.wait().unwrap();
        assert_eq!(members, Members::Living(group.as_raw_nonzero().get()));
    }

    #[test]
    fn a_process_that_cannot_be_examined_may_live() {
        let failed = |error: Errno| Process::of(Err(error.into()));
        assert!(matches!((failed(Errno::NOENT), failed(Errno::SRCH)), (Seen::Gone, Seen::Gone)));
        assert!(matches!((failed(Errno::MFILE), failed(Errno::IO)), (Seen::Unknown, Seen::Unknown)));
        assert!(matches!(Process::of(Ok(b"7 (x) Z 1".to_vec())), Seen::Unknown));
        let look = |number| match number {
            1 => Seen::Unknown,
            2 => Seen::Gone,
            3 => Seen::Is(Process { state: 'Z', group: 7, threads: 1 }),
            _ => Seen::Is(Process { state: 'S', group: 7, threads: 1 }),
        };
        assert_eq!(scan(7, [2, 3], look), Members::AllEnded);
        assert_eq!(scan(7, [1, 2, 3], look), Members::Unknown);
        assert_eq!(scan(7, [1, 3, 4], look), Members::Living(4));
        assert_eq!(scan(8, [2, 3, 4], look), Members::Unknown);
    }

    #[test]
    fn a_second_scan_confirms_that_all_have_ended() {
        let scans = Cell::new(0);
        let members = confirmed(|| {
            scans.set(scans.get() + 1);
            if scans.get() == 1 { Members::AllEnded } else { Members::Living(4) }
        });
        assert_eq!(members, Members::Living(4));
    }
}
