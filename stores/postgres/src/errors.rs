//! The meaning of an error of the server or of the client for its command.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use tokio_postgres::Error as ClientError;
use tokio_postgres::error::SqlState;

use distlock_store::StoreError;
use distlock_store::engine::with_causes;
use distlock_store::kit::certificates;

/// When an error occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before any command.
    Connecting,
    /// An error as the reply to a command, or instead of the reply.
    Asking,
}

/// Raised by distlock's functions: the command was executed too late, and has done nothing.
const TOO_LATE: &str = "DL001";

pub(super) fn is_too_late(error: &ClientError) -> bool {
    error.code().is_some_and(|code| code.code() == TOO_LATE)
}

/// The server no longer knows a prepared statement, or the type of its result has changed. It has done nothing.
pub(super) fn is_of_preparation(error: &ClientError) -> bool {
    let codes = [&SqlState::INVALID_SQL_STATEMENT_NAME, &SqlState::FEATURE_NOT_SUPPORTED];
    error.code().is_some_and(|code| codes.contains(&code))
}

/// The schema, a table or a function does not exist.
pub(super) fn is_of_missing_tables(error: &ClientError) -> bool {
    error.code().is_some_and(|code| MISSING.contains(&code.code()))
}

const MISSING: [&str; 3] = ["3F000", "42P01", "42883"];

/// Another transaction locked a row or a table for longer than a command waits for it.
pub(super) fn is_of_a_lock(error: &StoreError) -> bool {
    error.is::<LockedRow>()
}

/// With the message of the server.
#[derive(Debug)]
struct LockedRow(String);

impl fmt::Display for LockedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LockedRow {}

pub(super) fn is_forbidden(error: &ClientError) -> bool {
    // The server also reports this for a schema that does not exist, in a database in which the role may not create
    // one.
    matches!(error.code(), Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE)
}

/// The message of the server.
pub(super) fn words(error: &ClientError) -> String {
    if let Some(said) = error.as_db_error() {
        return format!("{}, SQLSTATE {}", said.message(), said.code().code());
    }
    with_causes(error.to_string(), error.source())
}

/// The same error, with the place where it occurred.
pub(super) fn at(place: &str, error: &StoreError) -> StoreError {
    StoreError {
        kind: error.kind,
        source: Arc::from(Box::<dyn Error + Send + Sync>::from(format!("{place}: {error}"))),
    }
}

/// The meaning of the error, and the remedy.
pub(super) fn of(error: &ClientError, moment: Phase) -> StoreError {
    let said = words(error);
    if let Some(remedy) = certificates::remedy(error) {
        return StoreError::refused(format!("{said}: {remedy}"));
    }
    let Some(code) = error.code() else {
        return match moment {
            Phase::Connecting => StoreError::not_sent(said),
            // A connection that is already closed reports it before anything is sent, but not reliably.
            Phase::Asking => StoreError::unknown(said),
        };
    };
    match remedy(code) {
        Some(remedy) => StoreError::refused(format!("{said}: {remedy}")),
        None => temporary(code, said),
    }
}

/// The remedy for a permanent refusal.
fn remedy(code: &SqlState) -> Option<&'static str> {
    let text = match code.code() {
        "28P01" => "check the password in the URL",
        "28000" => {
            "check the user in the URL, and pg_hba.conf on the server; it may require `sslmode=require`, or a \
             client certificate (`cert=` and `key=`)"
        }
        "3D000" => "check the database in the URL, or create it",
        "42501" => {
            "GRANT USAGE ON SCHEMA, and SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA, to this role"
        }
        missing if MISSING.contains(&missing) => return None,
        other if other.starts_with("42") || other.starts_with("22") || other.starts_with("0A") => {
            "the functions in the schema are not those of this version of distlock"
        }
        _ => return None,
    };
    Some(text)
}

/// A temporary refusal, or an error after which the outcome is unknown.
fn temporary(code: &SqlState, said: String) -> StoreError {
    match code.code() {
        "25006" => StoreError::later(format!(
            "{said}: it is a standby, or transactions were made read-only (default_transaction_read_only), as \
             some administrators do when the disk is full. If it is a standby, name all servers in the URL \
             (host1,host2) with `target_session_attrs=read-write`"
        )),
        // Nothing was done, and nothing more is sent before the next connection.
        missing if MISSING.contains(&missing) => StoreError::later(format!(
            "{said}: the tables or functions of distlock are missing; distlock creates them again now, if \
             this role may create them"
        )),
        "55P03" => StoreError::later(LockedRow(said)),
        "57P03" | "53300" => StoreError::later(said),
        // Rolled back: a deadlock, a limit of the role, a full disk.
        "40001" | "40P01" | "57014" | "53100" | "53200" | TOO_LATE => StoreError::later(said),
        // The connection ends. Its last command may have been committed.
        _ => StoreError::unknown(said),
    }
}
