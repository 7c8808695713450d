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
/// A longer log is written back into the file.
const LONGEST_LOG: u64 = 4 * 1024 * 1024;

/// Whether what is committed must not be lost with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// A fencing token.
    Yes,
    /// A lease: it ends with this start of the machine in any case.
    No,
}

/// When a transaction takes place: which start of the machine, and microseconds since then.
pub(super) struct TransactionTime<'a> {
    pub(super) boot: &'a str,
    pub(super) now: i64,
}

/// An open file.
#[derive(Debug)]
pub(super) struct LockFile {
    path: PathBuf,
    /// Device and number of the file that is open: the name may come to mean another one.
    identity: (u64, u64),
    db: Connection,
    boot: String,
    /// From this length on the log is written back.
    longest_log: u64,
}

impl LockFile {
    /// Opens it, or makes it, with its tables.
    pub(super) fn open(path: &Path, busy_timeout: Duration, boot: String) -> Result<Self, StoreError> {
        not_forked()?;
        local::check(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(errors::undone)?;
        let identity = identity(path)?;
        db.busy_timeout(busy_timeout).map_err(errors::undone)?;
        let mode: String =
            db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(errors::undone)?;
        if mode != "wal" {
            return Err(StoreError::refused(format!(
                "{}: SQLite cannot keep a log (WAL) next to it",
                path.display()
            )));
        }
        // The log is written back by `shorten_log` alone: a checkpoint that runs at the same time as a commit can
        // damage the file in SQLite before 3.51.3 (the WAL-reset bug). And who closes a file whose name means another
        // one by now would remove the log of that one.
        db.pragma_update(None, "wal_autocheckpoint", 0).map_err(errors::undone)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(errors::undone)?;
        let mut file = LockFile { path: path.to_owned(), identity, db, boot, longest_log: LONGEST_LOG };
        // Only then is the file locked: even if a process keeps it locked, others can open and read it.
        if file.read(|db, _| lacks_tables(db))? {
            file.write(None, Durable::Yes, |tx, _| tx.execute_batch(TABLES))?;
        }
        Ok(file)
    }

    /// Whether the name still means this file.
    pub(super) fn is_there(&self) -> bool {
        identity(&self.path).is_ok_and(|found| found == self.identity)
    }

    /// Reads, without waiting for who writes.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &TransactionTime<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let moment = TransactionTime { boot: &self.boot, now: clock::now() };
        work(&self.db, &moment).map_err(errors::undone)
    }

    /// A transaction, while nothing else writes, in full or not at all. Refused after `until`, when its sender has
    /// given it up: the time is read when the file is locked, and so is that of the leases.
    pub(super) fn write<T>(
        &mut self,
        until: Option<i64>,
        durable: Durable,
        work: impl FnOnce(&Transaction<'_>, &TransactionTime<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // What has waited for its turn behind others for too long does not wait for the file, too.
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

    /// Writes a long log back and empties it, while it keeps all others from writing. It waits for who reads; if
    /// a process reads for a long time, as a backup does, it is tried again when the log is twice as long.
    pub(super) fn shorten_log(&mut self) {
        if self.log_length() > self.longest_log {
            drop(self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
            self.longest_log = LONGEST_LOG.max(2 * self.log_length());
        }
    }

    pub(super) fn log_length(&self) -> u64 {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        fs::metadata(log).map_or(0, |log| log.len())
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
               WHERE name IN ('distlock_lease_1', 'distlock_lease_1_k', 'distlock_fence_1')";
    db.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? < 3))
}

fn identity(path: &Path) -> Result<(u64, u64), StoreError> {
    let found = fs::metadata(path).map_err(|error| errors::of_the_place(path, &error))?;
    Ok((found.dev(), found.ino()))
}

/// SQLite remembers in a process which files it has locked; a fork has the memory, but not the locks.
fn not_forked() -> Result<(), StoreError> {
    static OPENED_BY: OnceLock<u32> = OnceLock::new();
    if *OPENED_BY.get_or_init(process::id) == process::id() {
        return Ok(());
    }
    Err(StoreError::refused(
        "this process was forked from one that has opened SQLite files: let it run a program (exec) first",
    ))
}
