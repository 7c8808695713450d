//! Which reports were sent: a file with a line for each, which all instances append to.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    ops::Range,
    path::{Path, PathBuf},
};

#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    path: PathBuf,
}

/// The content of the ledger.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) total: usize,
    /// Intervals with more than one report.
    pub(crate) repeated: usize,
    /// Intervals without a report.
    pub(crate) left_out: usize,
}

impl Ledger {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn add(&self, interval: u64) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        // In one write, so that lines of several processes do not mix.
        file.write_all(format!("{interval}\n").as_bytes())
    }

    pub(crate) fn runs(&self, intervals: Range<u64>) -> io::Result<Runs> {
        let mut text = String::new();
        match File::open(&self.path) {
            Ok(mut file) => drop(file.read_to_string(&mut text)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut sent: BTreeMap<u64, usize> = intervals.map(|interval| (interval, 0)).collect();
        for interval in text.lines().filter_map(|line| line.parse().ok()) {
            *sent.entry(interval).or_default() += 1;
        }
        Ok(Runs {
            total: sent.values().sum(),
            repeated: sent.values().filter(|count| **count > 1).count(),
            left_out: sent.values().filter(|count| **count == 0).count(),
        })
    }
}
