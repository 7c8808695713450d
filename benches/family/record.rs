//! The sections of a run, and the figures that follow from them.

use distlock_benches::sections::Section;

use crate::members::Ask;

/// One section: its request, and when the lock was held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) ask: Ask,
    pub(crate) section: Section,
}

/// All sections of a run on one key.
#[derive(Debug)]
pub(crate) struct Record(Vec<Taken>);

impl Record {
    pub(crate) fn new(mut taken: Vec<Taken>) -> Record {
        taken.sort_unstable_by_key(|one| one.section.start);
        Record(taken)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The longest time from the request to the lock, in nanoseconds.
    pub(crate) fn longest_wait(&self) -> u64 {
        self.0.iter().map(|one| one.section.start - one.section.asked).max().unwrap_or(0)
    }

    /// Hand-offs, in nanoseconds. See the documentation of the bench. Only holders that had asked before there was room
    /// count.
    pub(crate) fn hand_offs(&self) -> Vec<u64> {
        match self.capacity() {
            Some(capacity) => self.hand_offs_of(capacity),
            None => self.hand_offs_of_readers_and_writers(),
        }
    }

    /// How many may hold the lock at once. `None`: it depends on their kinds.
    fn capacity(&self) -> Option<usize> {
        match self.0.first()?.ask {
            Ask::Read | Ask::Write => None,
            Ask::Limited(limit) => usize::try_from(limit).ok(),
            Ask::Alone | Ask::Both => Some(1),
        }
    }

    fn ends(&self) -> Vec<u64> {
        let mut ends: Vec<u64> = self.0.iter().map(|one| one.section.end).collect();
        ends.sort_unstable();
        ends
    }

    fn hand_offs_of(&self, capacity: usize) -> Vec<u64> {
        let entries = self.0.iter().skip(capacity).map(|one| one.section);
        let pairs = entries.zip(self.ends());
        pairs
            .filter(|(section, end)| section.asked < *end)
            .map(|(section, end)| section.start.saturating_sub(end))
            .collect()
    }

    fn hand_offs_of_readers_and_writers(&self) -> Vec<u64> {
        let in_the_way = |one: &Taken| {
            let others = self.0.iter().filter(|other| conflict(one.ask, other.ask));
            others.map(|other| other.section.end).filter(|end| *end <= one.section.start).max()
        };
        self.0
            .iter()
            .filter_map(|one| {
                let end = in_the_way(one)?;
                (one.section.asked < end).then(|| one.section.start - end)
            })
            .collect()
    }

    /// How many sections began while too many others held the lock. It should be zero.
    pub(crate) fn intrusions(&self) -> usize {
        match self.capacity() {
            Some(capacity) => {
                let starts = self.0.iter().skip(capacity).map(|one| one.section.start);
                starts.zip(self.ends()).filter(|(start, end)| start < end).count()
            }
            None => {
                let overlaps = |one: &Taken, other: &Taken| {
                    conflict(one.ask, other.ask)
                        && other.section.start < one.section.start
                        && one.section.start < other.section.end
                };
                self.0.iter().filter(|one| self.0.iter().any(|other| overlaps(one, other))).count()
            }
        }
    }
}

fn conflict(one: Ask, other: Ask) -> bool {
    one != Ask::Read || other != Ask::Read
}
