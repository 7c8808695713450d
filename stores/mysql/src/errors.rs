//! The meaning of an error of the server or of the client for its command.

use std::error::Error as _;

use mysql_async::{DriverError, Error, ServerError};

use distlock_store::StoreError;
use distlock_store::engine::with_causes;
use distlock_store::kit::certificates;

/// When an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before any command.
    Connecting,
    /// As the reply to a command, or instead of the reply.
    Asking,
}

fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Server(ServerError { code, .. }) => Some(*code),
        _ => None,
    }
}

/// The statement lost against another transaction, or waited too long for a row. It has done nothing, and is retried
/// immediately. (1020: a row was changed after the statement began. MariaDB 11.6.2 or later reports this unless
/// `innodb_snapshot_isolation` is off.)
pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(code(error), Some(1020 | 1205 | 1213))
}

/// The statement waited too long for a row.
pub(super) fn is_of_a_row(error: &Error) -> bool {
    code(error) == Some(1205)
}

/// There is no such table.
pub(super) fn is_missing(error: &Error) -> bool {
    code(error) == Some(1146)
}

/// This user lacks a permission. The server also reports this for a table that does not exist, if the user may not read
/// a table of this name.
pub(super) fn is_forbidden(error: &Error) -> bool {
    matches!(code(error), Some(1044 | 1142 | 1143 | 1227))
}

/// The server does not accept writes.
pub(super) fn is_read_only(error: &Error) -> bool {
    matches!(code(error), Some(1290 | 1792 | 1836))
}

/// The message of the server or of the client.
pub(super) fn words(error: &Error) -> String {
    if let Error::Server(ServerError { code, message, state }) = error {
        return format!("{message}, error {code}, SQLSTATE {state}");
    }
    with_causes(error.to_string(), error.source())
}

/// The meaning of the error, and the remedy.
pub(super) fn of(error: &Error, moment: Phase) -> StoreError {
    let said = words(error);
    let Some(code) = code(error) else {
        return of_the_client(error, said, moment);
    };
    match remedy(code) {
        Some(remedy) => StoreError::refused(format!("{said}: {remedy}")),
        None => temporary(code, said, moment),
    }
}

fn of_the_client(error: &Error, said: String, moment: Phase) -> StoreError {
    if let Some(remedy) = certificates::remedy(error) {
        return StoreError::refused(format!("{said}: {remedy}"));
    }
    match (error, moment) {
        (Error::Driver(DriverError::NoClientSslFlagFromServer), _) => StoreError::refused(format!(
            "the server does not speak TLS ({said}): set it up there, or leave `sslmode=` out"
        )),
        (Error::Driver(DriverError::UnknownAuthPlugin { .. } | DriverError::CleartextPluginDisabled), _) => {
            StoreError::refused(format!(
                "{said}: let the user log in by mysql_native_password or caching_sha2_password"
            ))
        }
        (_, Phase::Connecting) => StoreError::not_sent(said),
        // The connection broke, or the reply was not understood.
        (_, Phase::Asking) => StoreError::unknown(said),
    }
}

/// The remedy for a permanent refusal.
fn remedy(code: u16) -> Option<&'static str> {
    let text = match code {
        1045 | 1698 => {
            "check the user and the password in the URL, and from which hosts the user may log in; the user may need \
             TLS (`sslmode=require`), or a client certificate (`cert=` and `key=`)"
        }
        3159 => "the server requires TLS: write `sslmode=require` into the URL",
        1044 => "check the database in the URL, and GRANT this user access to it",
        1049 => "check the database in the URL, or create it",
        1046 => "name the database in the URL: `mysql://user:password@host/database`",
        1129 | 1130 => "let the server accept this host: CREATE USER 'user'@'host', or FLUSH HOSTS",
        1142 | 1143 | 1227 => {
            "GRANT SELECT, INSERT, UPDATE, DELETE on the tables of locks, of holders and of values, and SELECT, UPDATE on \
             the one of the floor, to this user; if there is no table of holders yet, which shared and limited locks need, let \
             a user connect once that may create it"
        }
        1146 => {
            "a table of distlock is missing, or the URL names another database; the tables are created when \
             the program connects again, if its user may create them"
        }
        1665 => {
            "set `binlog_format` to MIXED or ROW on the server: locks need READ COMMITTED, which cannot be logged as \
             statements"
        }
        1820 | 1862 => "the password of the user has expired: change it",
        1251 | 2059 => "let the user log in by mysql_native_password or caching_sha2_password",
        1054 | 1064 | 1136 | 1364 | 1366 | 1406 => {
            "the tables are not those of this version of distlock, or the server is of a kind that is not supported"
        }
        _ => return None,
    };
    Some(text)
}

/// A temporary refusal, or an error after which the outcome is unknown.
fn temporary(code: u16, said: String, moment: Phase) -> StoreError {
    match code {
        // See is_read_only.
        1290 | 1792 | 1836 => StoreError::later(format!("{said}: {STANDBY}")),
        // Too many connections; a limit of the user.
        1040 | 1203 | 1226 if moment == Phase::Connecting => StoreError::not_sent(said),
        // Rolled back: a conflict, an interruption by the administrator, a time limit, a full disk.
        1020 | 1040 | 1203 | 1205 | 1213 | 1226 | 1317 | 1969 | 3024 | 1021 | 1114 => StoreError::later(said),
        _ if moment == Phase::Connecting => StoreError::not_sent(said),
        // The connection or the server ends. Its last command may have been committed.
        _ => StoreError::unknown(said),
    }
}

/// The remedy for a server that does not accept writes.
pub(super) const STANDBY: &str = "it is read-only, perhaps a replica; name all servers in the URL \
                                  (host1,host2): distlock uses the first one that accepts writes";

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::engine::Failure;

    fn server(code: u16) -> Error {
        Error::Server(ServerError { code, message: "no".to_owned(), state: "HY000".to_owned() })
    }

    #[test]
    fn what_may_have_been_committed_is_unknown() {
        for (code, kind) in [
            (1020, Failure::Later),
            (1213, Failure::Later),
            (1317, Failure::Later),
            (1290, Failure::Later),
            (1146, Failure::Refused),
            (1045, Failure::Refused),
            // The server shuts down, an error occurred during a commit, the connection was killed, or the number is
            // unknown.
            (1053, Failure::Unknown),
            (1180, Failure::Unknown),
            (1927, Failure::Unknown),
            (9_999, Failure::Unknown),
        ] {
            assert_eq!(of(&server(code), Phase::Asking).kind, kind, "{code}");
        }
        assert!(is_conflict(&server(1020)) && is_conflict(&server(1205)) && !is_conflict(&server(1053)));
        let broken = Error::Driver(DriverError::ConnectionClosed);
        assert_eq!(of(&broken, Phase::Asking).kind, Failure::Unknown);
        assert_eq!(of(&broken, Phase::Connecting).kind, Failure::NotSent);
        assert_eq!(of(&server(1040), Phase::Connecting).kind, Failure::NotSent);
    }
}
