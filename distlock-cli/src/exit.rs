//! Exit statuses of `sysexits.h`, of shells, and of the command.

use std::error::Error;
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
    /// EX_UNAVAILABLE: the store is unreachable, or the ticket cannot be written.
    Unavailable,
    /// EX_TEMPFAIL: the lock is busy.
    Busy,
    /// The lock was lost before or while the command ran.
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
            LockError::Unavailable { source, .. } if is_refused(&**source) => Exit::NoPermission,
            _ => Exit::Unavailable,
        }
    }

    /// The status for an error of the library, which is also printed.
    pub(crate) fn told(error: &LockError) -> Exit {
        Exit::of(error).because(&error.to_string())
    }
}

/// What the stores write about users, passwords and permissions: the server's error code, or their own phrase.
const REFUSALS: &[&str] = &[
    // Redis.
    "NOPERM",
    "NOAUTH",
    "WRONGPASS",
    "AuthenticationFailed",
    "asks for a password",
    // PostgreSQL. MySQL has the first one for a user or a password that is wrong.
    "SQLSTATE 28",
    "SQLSTATE 42501",
    // MySQL: the database, a command for a table or a column, a privilege, and a password that has expired.
    "error 1044,",
    "error 1142,",
    "error 1143,",
    "error 1227,",
    "error 1820,",
    "error 1862,",
    // etcd, and Redis for a login.
    "refuses the user",
    "asks for a user",
    // ZooKeeper.
    "refuses access to",
    "refuses the login",
    // Memcached.
    "unauthenticated",
    "does not accept the user",
];

fn is_refused(cause: &dyn Error) -> bool {
    let text = cause.to_string();
    REFUSALS.iter().any(|words| text.contains(words))
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

    #[test]
    fn the_refusals_of_every_store_are_recognised() {
        for cause in [
            "cannot use redis://h: user or password is wrong: correct the URL (WRONGPASS: invalid username-password)",
            "redis://h refuses the user or the password: correct the URL (Password authentication failed)",
            "password authentication failed for user \"app\", SQLSTATE 28P01: check the password in the URL",
            "role \"app\" does not exist, SQLSTATE 28000: check the user in the URL",
            "permission denied for table distlock_lock_1, SQLSTATE 42501: GRANT USAGE ON SCHEMA",
            "Access denied for user 'app'@'h' (using password: YES), error 1045, SQLSTATE 28000: check the user",
            "Access denied for user 'root'@'h', error 1698, SQLSTATE 28000: check the user",
            "Access denied for user 'app'@'%' to database 'x', error 1044, SQLSTATE 42000: check the database",
            "INSERT command denied to user 'app'@'h' for table 'distlock_1', error 1142, SQLSTATE 42000: GRANT",
            "etcd at h refuses the user: give a role of it read and write permission (etcdserver: permission denied)",
            "etcd at h refuses the user or the password: correct the URL (etcdserver: authentication failed)",
            "etcd at h asks for a user: write `etcd://user:password@host` (etcdserver: user name is empty)",
            "ZooKeeper at h refuses access to `/app/locks`: write the user into the URL (not authorized)",
            "ZooKeeper at h refuses the login: correct the user and the password (authentication failed)",
            "CLIENT_ERROR unauthenticated: the server requires a user and a password",
            "the server does not accept the user and the password: check them in the URL",
        ] {
            assert_eq!(Exit::of(&LockError::unavailable("k", cause)), Exit::NoPermission, "{cause}");
        }
        for cause in [
            "Unknown database 'x', error 1049, SQLSTATE 42000: check the database in the URL, or create it",
            "the database system is starting up, SQLSTATE 57P03",
            "ZooKeeper at h has a quota on `/app` that is used up: raise it (setquota) (exceed path quota)",
        ] {
            assert_eq!(Exit::of(&LockError::unavailable("k", cause)), Exit::Unavailable, "{cause}");
        }
        // The key is not a part of the cause.
        assert_eq!(Exit::of(&LockError::unavailable("NOPERM", "connection refused")), Exit::Unavailable);
    }
}
