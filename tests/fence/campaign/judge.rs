//! Compares the results of the callers with the data in the database.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::NAMES;
use super::worker::{Answer, Job};
use crate::world::World;

#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The tokens that have committed, by the name that each has written.
    committed: HashMap<String, HashSet<i64>>,
    /// The tokens whose callers were told by an error that nothing was committed.
    refused: HashMap<String, HashSet<i64>>,
    /// How often the outcome is unknown: there was no reply, or the process was killed.
    unknown: HashMap<String, usize>,
    answers: [usize; 5],
    killed: usize,
}

impl Judge {
    pub(super) fn heard(&mut self, answer: Answer, token: i64, job: &Job) {
        self.answers[answer as usize] += 1;
        match answer {
            Answer::Committed | Answer::Replay => {
                self.committed.entry(job.name().to_owned()).or_default().insert(token);
            }
            // A section without a token has written nothing.
            Answer::Refused | Answer::Stale => {
                self.refused.entry(job.name().to_owned()).or_default().insert(token);
            }
            Answer::Unknown => *self.unknown.entry(job.name().to_owned()).or_default() += 1,
        }
    }

    pub(super) fn killed(&mut self, jobs: &[Job]) {
        self.killed += 1;
        jobs.iter().for_each(|job| *self.unknown.entry(job.name().to_owned()).or_default() += 1);
    }

    /// Compares the database with the results of the callers.
    pub(super) async fn acquits<D: World>(&self, database: &D) {
        for name in NAMES {
            let written = database.written(name).await;
            assert!(written.is_sorted(), "{name}: {written:?}");
            let counted = usize::try_from(database.counted(name).await).unwrap();
            assert_eq!(counted, written.len(), "{name}: an update was overwritten");
            self.is_true(name, &written);
        }
        for name in self.committed.keys().filter(|name| !NAMES.contains(&name.as_str())) {
            let written = database.written(name).await;
            assert_eq!(written.len(), 1, "{name}: {written:?}");
            self.is_true(name, &written);
        }
    }

    fn is_true(&self, name: &str, written: &[i64]) {
        let set: HashSet<i64> = written.iter().copied().collect();
        assert_eq!(set.len(), written.len(), "{name}: {written:?}");
        let nothing = HashSet::new();
        let committed = self.committed.get(name).unwrap_or(&nothing);
        let missing: Vec<_> = committed.difference(&set).collect();
        assert!(missing.is_empty(), "{name}: said to be committed: {missing:?}");
        let refused: Vec<_> = self.refused.get(name).unwrap_or(&nothing).intersection(&set).collect();
        assert!(refused.is_empty(), "{name}: said not to be committed: {refused:?}");
        let silent = set.difference(committed).count();
        let unknown = self.unknown.get(name).copied().unwrap_or(0);
        assert!(silent <= unknown, "{name}: {silent} were committed that nobody knows of");
    }
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [committed, replays, refused, stale, unknown] = self.answers;
        write!(
            f,
            "{committed} committed, {replays} replays, {refused} refused, {stale} stale, {unknown} unknown, {} processes \
             killed",
            self.killed
        )
    }
}
