//! The file: how it is opened, and transactions on it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use super::{clock, errors, local};
use distlock_store::StoreError;

pub(super) const TABLES: &str = include_str!("sql/tables.sql");
/// The maximum length of the log. A longer one is written back into the file.
const LONGEST_LOG: u64 = 4 * 1024 * 1024;

/// Whether a commit must survive a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// Yes: the transaction creates a fencing token.
    Yes,
    /// No: a lease ends with this start of the machine in any case.
    No,
}

/// The time of a transaction: the id of the start of the machine, and the microseconds since then.
pub(super) struct TransactionTime<'a> {
    pub(super) boot: &'a str,
    pub(super) now: i64,
}

/// An open file.
#[derive(Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    /// The device and the number of the open file. Later, the name may refer to another file.
    identity: (u64, u64),
    log: PathBuf,
    db: Connection,
    /// Holds the write lock while `db` writes the log back. A connection cannot do both.
    writer: Connection,
    boot: String,
    /// The log is written back when it reaches this length.
    longest_log: u64,
}

impl LockFile {
    /// Opens the file, or creates it with its tables.
    pub(super) fn open(path: &Path, busy_timeout: Duration, boot: String) -> Result<Self, StoreError> {
        not_forked()?;
        local::check(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || Connection::open_with_flags(path, flags).map_err(|error| errors::unopened(path, error));
        let ((db, writer), identity) = opened(path, || Ok((open()?, open()?)))?;
        let log = log_of(path)?;
        db.busy_timeout(busy_timeout).map_err(errors::undone)?;
        let mode: String =
            db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(errors::undone)?;
        if mode != "wal" {
            return Err(StoreError::refused(format!(
                "{}: SQLite cannot keep a log (WAL) next to it",
                path.display()
            )));
        }
        // Only `shorten_log` writes the log back. Before SQLite 3.51.3, a checkpoint that runs at the same time as a
        // commit can damage the file (the WAL-reset bug). And if the name refers to another file by now, closing this
        // file would remove the log of that file.
        for db in [&db, &writer] {
            db.pragma_update(None, "wal_autocheckpoint", 0).map_err(errors::undone)?;
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(errors::undone)?;
        }
        // A writer that begins the log again cuts it to the length that it needs.
        db.pragma_update(None, "journal_size_limit", 0).map_err(errors::undone)?;
        writer.busy_timeout(Duration::ZERO).map_err(errors::undone)?;
        let path = path.to_owned();
        let mut file = LockFile { path, identity, log, db, writer, boot, longest_log: LONGEST_LOG };
        // The file is locked only in this case. So others can open and read it even if a process keeps it locked.
        if file.read(|db, _| lacks_tables(db))? {
            file.write(None, Durable::Yes, |tx, _| tx.execute_batch(TABLES))?;
        }
        Ok(file)
    }

    /// Whether the name still refers to this file.
    pub(super) fn is_there(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }

    /// Reads without waiting for a process that writes.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &TransactionTime<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let moment = TransactionTime { boot: &self.boot, now: clock::now() };
        work(&self.db, &moment).map_err(errors::undone)
    }

    /// Executes an atomic transaction while no other process writes. It is refused after `until`, because its sender no
    /// longer waits then. This time, and the time for the leases, is read after the file was locked.
    pub(super) fn write<T>(
        &mut self,
        until: Option<i64>,
        durable: Durable,
        work: impl FnOnce(&Transaction<'_>, &TransactionTime<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // A job that has waited too long for other jobs does not wait for the file, too.
        in_time(until, clock::now())?;
        let synchronous = if durable == Durable::Yes { "FULL" } else { "NORMAL" };
        self.db.pragma_update(None, "synchronous", synchronous).map_err(errors::undone)?;
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(errors::undone)?;
        let moment = TransactionTime { boot: &self.boot, now: clock::now() };
        in_time(until, moment.now)?;
        let done = work(&tx, &moment).map_err(errors::undone)?;
        tx.commit().map_err(errors::perhaps_done)?;
        Ok(done)
    }

    /// Writes a long log back, so that the next writer can begin it again. No process can write during this time. It
    /// waits for no other process. If one writes now, the next attempt follows the next job. If one reads for a long
    /// time, as a backup does, the log cannot begin again: the next attempt is made when it is twice as long.
    pub(super) fn shorten_log(&mut self) {
        let length = self.log_length();
        if length <= LONGEST_LOG {
            self.longest_log = LONGEST_LOG;
        }
        if length > self.longest_log
            && let Ok(_nobody_writes) = self.writer.transaction_with_behavior(TransactionBehavior::Immediate)
        {
            drop(self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
            self.longest_log = 2 * length;
        }
    }

    pub(super) fn log_length(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |log| log.len())
    }
}

fn in_time(until: Option<i64>, now: i64) -> Result<(), StoreError> {
    match until {
        Some(until) if now > until => {
            Err(StoreError::later("other processes have kept the file locked for too long"))
        }
        _ => Ok(()),
    }
}

fn lacks_tables(db: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema \
               WHERE name IN ('distlock_lease_1', 'distlock_lease_1_k', 'distlock_value_1', 'distlock_fence_1')";
    db.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? < 4))
}

/// Opens the file that the name refers to, and returns its identity. The name may refer to another file while SQLite
/// opens it, so it must refer to the same one before and after.
fn opened<T>(
    path: &Path,
    mut open: impl FnMut() -> Result<T, StoreError>,
) -> Result<(T, (u64, u64)), StoreError> {
    // The first attempt may create the file.
    for _ in 0..3 {
        let before = identity(path).ok();
        let open = open()?;
        let after = identity(path)?;
        if before == Some(after) {
            return Ok((open, after));
        }
    }
    Err(StoreError::later(format!("{}: the file was replaced while it was opened", path.display())))
}

/// SQLite follows a symbolic link, and keeps the log next to the file.
fn log_of(path: &Path) -> Result<PathBuf, StoreError> {
    let file = fs::canonicalize(path).map_err(|error| errors::of_the_place(path, &error))?;
    let mut log = file.into_os_string();
    log.push("-wal");
    Ok(log.into())
}

fn identity(path: &Path) -> Result<(u64, u64), StoreError> {
    let found = fs::metadata(path).map_err(|error| errors::of_the_place(path, &error))?;
    Ok((found.dev(), found.ino()))
}

/// SQLite keeps in memory which files this process has locked. A fork inherits the memory, but not the locks.
fn not_forked() -> Result<(), StoreError> {
    static OPENED_BY: OnceLock<u32> = OnceLock::new();
    if *OPENED_BY.get_or_init(process::id) == process::id() {
        return Ok(());
    }
    Err(StoreError::refused(
        "this process was forked from one that has opened SQLite files: let it run a program (exec) first",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_while_it_is_opened_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("locks.db"), directory.path().join("other.db"));
        let mut rounds = 0;
        let (opened, is_now) = opened(&path, || {
            rounds += 1;
            if rounds < 3 {
                fs::write(&other, "").unwrap();
                fs::rename(&other, &path).unwrap();
            }
            Ok(rounds)
        })
        .unwrap();
        assert_eq!((opened, is_now), (3, identity(&path).unwrap()));
        let error = super::opened(&path, || {
            fs::write(&other, "").unwrap();
            fs::rename(&other, &path).unwrap();
            Ok(())
        })
        .unwrap_err();
        assert!(error.to_string().contains("was replaced while it was opened"), "{error}");
    }
}
