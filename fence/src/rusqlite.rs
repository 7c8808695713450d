//! Connections of `rusqlite`.

use std::error;

use rusqlite::{Connection, Error, ErrorCode, OptionalExtension, params};

use crate::blocking::FencedConnection;
use crate::{Fence, FenceError, schema, signed, statements};

impl FencedConnection for Connection {
    fn begin(&mut self, fence: &Fence) -> Result<(), FenceError> {
        self.execute_batch("BEGIN").map_err(|error| FenceError::not_committed(fence, error))
    }

    fn fence(&mut self, fence: &Fence) -> Result<(), FenceError> {
        let failed = |error| FenceError::not_committed(fence, error);
        self.execute_batch(statements::MARK).map_err(failed)?;
        let given = params![fence.key(), signed(fence)?];
        let raised = self.query_row(statements::CHECK, given, |row| row.get::<_, i64>(0)).optional();
        if raised.map_err(failed)?.is_some() {
            return Ok(());
        }
        let newest = self.query_row(statements::NEWEST, [fence.key()], |row| row.get::<_, i64>(0));
        Err(FenceError::stale(fence, newest.map_err(failed)?.unsigned_abs()))
    }

    fn commit(&mut self, fence: &Fence) -> Result<(), FenceError> {
        let committed = self.execute_batch(statements::COMMIT_IF_OPEN);
        committed.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
    }

    fn roll_back(&mut self) {
        // After some errors SQLite has rolled back by itself, and says that there is no transaction.
        drop(self.execute_batch("ROLLBACK"));
    }

    fn migrate(&mut self) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        Ok(self.execute_batch(schema::SQLITE)?)
    }
}

#[cfg(feature = "once")]
impl crate::blocking::OnceConnection for Connection {
    fn find(&mut self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
        let stored = self.query_row(crate::once_statements::SQLITE.find, [fence.key()], |row| {
            Ok(crate::Stored { result: row.get(0)?, arguments: row.get(1)? })
        });
        stored.optional().map_err(|error| FenceError::not_committed(fence, error))
    }

    fn store(
        &mut self,
        fence: &Fence,
        stored: &crate::Stored,
        keep: std::time::Duration,
    ) -> Result<(), FenceError> {
        let open = self.execute_batch(statements::STILL_OPEN);
        open.map_err(|error| FenceError::outcome_unknown(fence, error))?;
        let (key, token, keep) = (fence.key(), signed(fence)?, crate::once_statements::millis(keep));
        let row = params![key, stored.result, stored.arguments, token, keep];
        let store = self.execute(crate::once_statements::SQLITE.store, row);
        store.map(drop).map_err(|error| FenceError::not_committed(fence, error))
    }

    fn prune(&mut self) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
        Ok(u64::try_from(self.execute(crate::once_statements::SQLITE.prune, [])?)?)
    }
}

/// Whether SQLite has refused to commit. After an I/O error it is not known whether the commit has reached the disk. An
/// error without a code of its own says that the transaction had ended before. Then later statements may have been
/// committed.
fn is_refusal(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    code.is_some_and(|code| !matches!(code, ErrorCode::Unknown | ErrorCode::SystemIoFailure))
}
