//! The promises of SQLite's errors about a transaction.

use std::io;
use std::path::Path;

use rusqlite::{Error, ErrorCode};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use distlock_store::StoreError;

/// An error before the commit of a transaction, which was rolled back.
pub(super) fn undone(error: Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::later(format!(
            "another process has kept the file locked: it is writing, it was stopped while it wrote, or the \
             disk is slow ({error})"
        )),
        Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory | ErrorCode::CannotOpen) => {
            StoreError::later(error)
        }
        Some(
            ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::NotADatabase
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::AuthorizationForStatementDenied,
        ) => StoreError::refused(error),
        _ => StoreError::unknown(error),
    }
}

/// The file cannot be opened. SQLite does not report whether a permission is missing. (Nothing is opened to find out,
/// because the close would end the locks of this process on the file.)
pub(super) fn unopened(path: &Path, error: Error) -> StoreError {
    let read_and_write = Access::READ_OK | Access::WRITE_OK;
    let (place, needed, words) = match path.parent() {
        Some(directory) if !path.exists() => {
            (directory, read_and_write | Access::EXEC_OK, "read, write and enter")
        }
        _ => (path, read_and_write, "read and write"),
    };
    if accessat(CWD, place, needed, AtFlags::EACCESS) != Err(rustix::io::Errno::ACCESS) {
        return undone(error);
    }
    let place = place.display();
    StoreError::refused(format!("{error}: give the user of this program the permission to {words} {place}"))
}

/// An error during a commit. The process that recovers the file may still find data that was not synchronised.
pub(super) fn perhaps_done(error: Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => undone(error),
        _ => StoreError::unknown(error),
    }
}

/// Whether the connection must not be used again.
pub(super) fn is_final(error: &StoreError) -> bool {
    error.is::<Error>()
}

/// The file or its directory cannot be checked.
pub(super) fn of_the_place(path: &Path, error: &io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
            StoreError::refused(text)
        }
        _ => StoreError::not_sent(text),
    }
}
