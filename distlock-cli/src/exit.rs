//! Exit statuses of `sysexits.h`, of shells, and of the command.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use distlock::LockError;

use crate::out::complain;

/// The exit status of the command `distlock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// The lock to show or to release is free.
    No,
    /// EX_USAGE: invalid options.
    Usage,
    /// EX_UNAVAILABLE: the store is unreachable.
    Unavailable,
    /// EX_TEMPFAIL: the lock is busy.
    Busy,
    /// The lock was lost while the command ran.
    Lost,
    /// EX_NOPERM: the store refuses the user, the password, or a command.
    NoPermission,
    /// EX_CONFIG: the key is in use as another kind of lock.
    WrongKind,
    /// The command was found, and cannot be executed.
    NotExecutable,
    /// The command was not found.
    NotFound,
    /// A signal has ended `distlock`, or the command.
    Signal(i32),
    /// The status of the command, or the status that the user has chosen.
    Status(u8),
}

impl Exit {
    pub(crate) fn status(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::No => 1,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::Busy => 75,
            Exit::Lost => 76,
            Exit::NoPermission => 77,
            Exit::WrongKind => 78,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Signal(number) => 128_u8.saturating_add(u8::try_from(number).unwrap_or(127)),
            Exit::Status(status) => status,
        }
    }

    /// Prints the reason on standard error.
    pub(crate) fn because(self, why: &str) -> Exit {
        complain(why);
        self
    }

    /// The status for an error of the library.
    pub(crate) fn of(error: &LockError) -> Exit {
        match error {
            LockError::Busy { .. } | LockError::InvalidTicket { .. } => Exit::Busy,
            LockError::Lost { .. } => Exit::Lost,
            LockError::WrongKind { .. } => Exit::WrongKind,
            LockError::InvalidKey { .. } | LockError::InvalidOptions { .. } => Exit::Usage,
            LockError::Unavailable { .. } if is_refused(error) => Exit::NoPermission,
            _ => Exit::Unavailable,
        }
    }

    /// The status for an error of the library, which is also printed.
    pub(crate) fn told(error: &LockError) -> Exit {
        Exit::of(error).because(&error.to_string())
    }
}

/// The library uses these words for a server's errors about users, passwords and permissions.
fn is_refused(error: &LockError) -> bool {
    let text = error.to_string();
    ["NOPERM", "NOAUTH", "WRONGPASS", "AuthenticationFailed", "asks for a password"]
        .iter()
        .any(|word| text.contains(word))
}

/// The status of a command that has ended, like a shell's.
impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (Some(0), _) => Exit::Success,
            (Some(code), _) => Exit::Status(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Status(u8::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_sysexits_and_of_shells() {
        let statuses: Vec<u8> = [
            Exit::Usage,
            Exit::Unavailable,
            Exit::Busy,
            Exit::Lost,
            Exit::NoPermission,
            Exit::WrongKind,
            Exit::NotExecutable,
            Exit::NotFound,
            Exit::Signal(15),
            Exit::Status(3),
        ]
        .map(Exit::status)
        .into();
        assert_eq!(statuses, [64, 69, 75, 76, 77, 78, 126, 127, 143, 3]);
    }

    #[test]
    fn errors_have_their_statuses() {
        assert_eq!(Exit::of(&LockError::busy("k")), Exit::Busy);
        assert_eq!(Exit::of(&LockError::lost("k")), Exit::Lost);
        assert_eq!(Exit::of(&LockError::unavailable("k", "connection refused")), Exit::Unavailable);
        assert_eq!(Exit::of(&LockError::unavailable("k", "NOPERM no permissions")), Exit::NoPermission);
    }
}
