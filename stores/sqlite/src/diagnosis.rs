//! Causes of slow locks in a file. Opening a file ensures the other settings, or refuses the file: the log (WAL), the
//! durability of commits, and a file system that only this machine uses.

use super::file::LockFile;
use distlock_store::Severity::{Fine, Warning};
use distlock_store::{Finding, StoreError};

/// A log is written back when it reaches 4 MiB. If it is longer, this was impossible, because a process has been
/// reading for a long time, or was stopped during a read.
const LONG_LOG: u64 = 64 * 1024 * 1024;

impl LockFile {
    pub(super) fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let mode =
            self.read(|db, _| db.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0)))?;
        Ok(vec![
            Finding::new(Fine, "version", format!("SQLite {}", rusqlite::version())),
            Finding::new(
                Fine,
                "durability",
                format!("journal_mode {mode}; fencing tokens are written by synchronous FULL"),
            ),
            Finding::new(Fine, "file system", "only processes of this machine use it"),
            log(self.log_length()),
        ])
    }
}

fn log(length: u64) -> Finding {
    let text = format!("{} MiB next to the file", length / (1024 * 1024));
    if length < LONG_LOG {
        return Finding::new(Fine, "log", text);
    }
    Finding::new(
        Warning,
        "log",
        format!("{text}: a process reads the file for a long time, and commands become slower"),
    )
    .remedy("end the transaction of the process that reads it, as `fuser` names it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_written_back_is_found() {
        assert_eq!(log(LONG_LOG - 1).severity, Fine);
        assert_eq!(log(LONG_LOG).severity, Warning);
    }
}
