//! The jobs, in files that all processes share. The files exclude no process: that is the task of the lock.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// A directory with the number of the next job, and a line for each job that was done.
#[derive(Debug, Clone)]
pub(crate) struct Ledger(PathBuf);

/// The jobs that were done, in order: the job, the generation of the process, and the fencing token.
#[derive(Debug)]
pub(crate) struct Record(Vec<(usize, usize, u64)>);

impl Ledger {
    pub(crate) fn create(directory: &Path, jobs: usize) -> io::Result<Self> {
        fs::write(directory.join("jobs"), jobs.to_string())?;
        fs::write(directory.join("next"), "1")?;
        Ok(Ledger::open(directory))
    }

    pub(crate) fn open(directory: impl Into<PathBuf>) -> Self {
        Ledger(directory.into())
    }

    fn number(&self, name: &str) -> io::Result<usize> {
        fs::read_to_string(self.0.join(name))?.parse().map_err(io::Error::other)
    }

    /// Does the next job; `false` if there is none. Two at a time would do the same one.
    pub(crate) async fn do_next(&self, generation: usize, fence: u64) -> io::Result<bool> {
        let job = self.number("next")?;
        if job > self.number("jobs")? {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.append("done", &format!("{job} {generation} {fence}"))?;
        fs::write(self.0.join("next"), (job + 1).to_string())?;
        Ok(true)
    }

    /// Writes down that a process of this generation has started.
    pub(crate) fn came(&self, generation: usize) -> io::Result<()> {
        self.append(&format!("generation-{generation}"), &std::process::id().to_string())
    }

    fn append(&self, name: &str, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(self.0.join(name))?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn lines(&self, name: &str) -> Vec<String> {
        // Without the file, no process has written a line yet.
        let text = fs::read_to_string(self.0.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn processes(&self, generation: usize) -> usize {
        self.lines(&format!("generation-{generation}")).len()
    }

    pub(crate) fn read(&self) -> Record {
        let line = |line: &String| {
            let mut words = line.split(' ');
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        Record(self.lines("done").iter().filter_map(line).collect())
    }
}

impl Record {
    pub(crate) fn done_by(&self, generation: usize) -> usize {
        self.0.iter().filter(|(_, by, _)| *by == generation).count()
    }

    fn times(&self) -> BTreeMap<usize, usize> {
        self.0.iter().fold(BTreeMap::new(), |mut times, (job, ..)| {
            *times.entry(*job).or_default() += 1;
            times
        })
    }

    /// Jobs that no process has done.
    pub(crate) fn lost(&self, jobs: usize) -> usize {
        let times = self.times();
        (1..=jobs).filter(|job| !times.contains_key(job)).count()
    }

    /// Jobs that were done more than once.
    pub(crate) fn repeated(&self) -> usize {
        self.times().values().filter(|times| **times > 1).count()
    }

    /// Every section had a greater fencing token than the one before it.
    pub(crate) fn is_in_order(&self) -> bool {
        self.0.is_sorted_by(|(_, _, one), (_, _, next)| one < next)
    }
}
