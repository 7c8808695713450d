//! The judge: reads which holders believed in which locks at which times, and finds violations.
//!
//! A section begins when its holder knows that it has the lock. It ends at the first of these events: the holder begins
//! to release, it notices the loss, it is killed, or its local deadline passes. All of them are inside the true lease.
//! So if two sections overlap that must not, there were two holders at the same time, with any delays.

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

/// The kind of lock of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No other holder of any kind.
    Exclusive,
    /// Any number of these.
    Shared,
    /// At most this many of these.
    Limited(usize),
}

impl Kind {
    /// Whether two holders of these kinds are compatible, without regard to limits.
    fn goes_with(self, other: Kind) -> bool {
        self != Kind::Exclusive && self == other
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Exclusive => f.write_str("exclusive"),
            Kind::Shared => f.write_str("shared"),
            Kind::Limited(limit) => write!(f, "limited:{limit}"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "exclusive" => Ok(Kind::Exclusive),
            None if text == "shared" => Ok(Kind::Shared),
            Some(("limited", limit)) => limit.parse().map(Kind::Limited).map_err(|error| error.to_string()),
            _ => Err(format!("`{text}` is no kind of lock")),
        }
    }
}

/// When a section was requested, for the order of requests within one process.
#[derive(Debug, Clone)]
pub struct Line {
    /// The process whose requests are in one queue.
    pub process: String,
    /// Before the request was made.
    pub asked: Duration,
    /// When it was certainly in the queue.
    pub stood: Duration,
}

/// One critical section as its holder saw it.
#[derive(Debug, Clone)]
pub struct Section {
    /// The holder.
    pub holder: String,
    /// The key.
    pub key: String,
    /// The kind of lock.
    pub kind: Kind,
    /// When the holder knew that it has the lock, on [`shared_clock`](crate::shared_clock).
    pub entered: Duration,
    /// When it stopped believing.
    pub left: Duration,
    /// Its fencing token, if it requested one.
    pub fence: Option<u64>,
    /// Its place in the queue, if it is known.
    pub line: Option<Line>,
}

impl Section {
    /// A section under an exclusive lock, without a token.
    #[must_use]
    pub fn new(holder: &str, key: &str, entered: Duration, left: Duration) -> Self {
        let (holder, key) = (holder.to_owned(), key.to_owned());
        Section { holder, key, kind: Kind::Exclusive, entered, left, fence: None, line: None }
    }
}

/// A violation of the promises of a lock.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Both believed to hold the key at the same time, and their kinds exclude each other.
    Overlap(Section, Section),
    /// More holders at the same time than the limit allows. The last of them exceeds the limit.
    Crowd(Vec<Section>),
    /// The token of the later section is not greater.
    Fence(Section, Section),
    /// The second section was requested when the first was already in the queue of the same process. The two exclude
    /// each other, and the second got the lock first.
    Overtaken(Section, Section),
}

/// Sections of any number of keys and holders.
#[derive(Debug, Clone, Default)]
pub struct History {
    sections: Vec<Section>,
}

impl History {
    /// Adds a section, in any order.
    pub fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The number of sections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// Whether nothing was recorded. In that case, there is nothing to judge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// All sections, in the order in which they were added.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Every violation, for each key in the order of entry.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let mut by_key = BTreeMap::<&str, Vec<&Section>>::new();
        for section in &self.sections {
            by_key.entry(&section.key).or_default().push(section);
        }
        let mut faults = Vec::new();
        for sections in by_key.values_mut() {
            sections.sort_by_key(|section| section.entered);
            faults.extend(overlaps(sections));
            faults.extend(older_tokens(sections));
            faults.extend(overtaken(sections));
        }
        faults
    }

    /// Asserts that there are sections, and no violations.
    ///
    /// # Panics
    /// On any violation, or if nothing was recorded.
    pub fn assert_sound(&self) {
        assert!(!self.is_empty(), "nothing was recorded");
        let faults = self.faults();
        assert!(faults.is_empty(), "{} faults, the first: {:#?}", faults.len(), faults[0]);
    }
}

/// Finds incompatible sections of one key at the same time. The sections are in the order of entry.
fn overlaps(sections: &[&Section]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut inside: Vec<&Section> = Vec::new();
    for section in sections.iter().copied() {
        inside.retain(|before| before.left > section.entered);
        let excluded = inside.iter().filter(|before| !before.kind.goes_with(section.kind));
        faults.extend(excluded.map(|before| Fault::Overlap((*before).clone(), section.clone())));
        inside.push(section);
        if let Kind::Limited(limit) = section.kind {
            let same = inside.iter().filter(|other| other.kind == section.kind);
            let crowd: Vec<Section> = same.map(|other| (*other).clone()).collect();
            if crowd.len() > limit {
                faults.push(Fault::Crowd(crowd));
            }
        }
    }
    faults
}

fn older_tokens(sections: &[&Section]) -> Vec<Fault> {
    let fenced = sections.iter().filter(|section| section.fence.is_some());
    let pairs = fenced.clone().zip(fenced.skip(1));
    let older = pairs.filter(|(before, section)| section.fence <= before.fence);
    older.map(|(before, section)| Fault::Fence((*before).clone(), (*section).clone())).collect()
}

/// Requests of one process are in one queue. If two of them exclude each other, their times show the order: the second
/// holder cannot know that it has the lock before the first has released it.
fn overtaken(sections: &[&Section]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, first) in sections.iter().enumerate() {
        let Some(behind) = &first.line else { continue };
        // In the order of entry. A request that is before another one in the queue must enter before it.
        for late in sections.iter().skip(index + 1) {
            let Some(line) = &late.line else { continue };
            let was_before = line.process == behind.process && line.stood <= behind.asked;
            if was_before && late.entered > first.entered && !first.kind.goes_with(late.kind) {
                faults.push(Fault::Overtaken((*late).clone(), (*first).clone()));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(holder: &str, entered: u64, left: u64, fence: Option<u64>) -> Section {
        let (entered, left) = (Duration::from_millis(entered), Duration::from_millis(left));
        Section { fence, ..Section::new(holder, "k", entered, left) }
    }

    fn of(kind: Kind, entered: u64, left: u64) -> Section {
        Section { kind, ..section("x", entered, left, None) }
    }

    fn in_line(kind: Kind, asked: u64, stood: u64, entered: u64) -> Section {
        let (asked, stood) = (Duration::from_millis(asked), Duration::from_millis(stood));
        let line = Line { process: "p".to_owned(), asked, stood };
        Section { line: Some(line), ..of(kind, entered, entered) }
    }

    fn history(sections: &[Section]) -> History {
        History { sections: sections.to_vec() }
    }

    #[test]
    fn sections_one_after_another_are_sound() {
        history(&[
            section("a", 0, 10, Some(1)),
            section("b", 10, 20, Some(2)),
            section("c", 25, 30, Some(7)),
        ])
        .assert_sound();
    }

    #[test]
    fn two_holders_at_a_time_are_found_even_inside_a_long_section() {
        let faults =
            history(&[section("a", 0, 100, None), section("b", 90, 95, None), section("c", 96, 99, None)])
                .faults();
        assert!(matches!(&faults[..], [Fault::Overlap(..), Fault::Overlap(..)]), "{faults:?}");
    }

    #[test]
    fn an_equal_or_older_token_is_found() {
        let faults =
            history(&[section("a", 0, 1, Some(5)), section("b", 2, 3, Some(5)), section("c", 4, 5, Some(4))])
                .faults();
        assert!(matches!(&faults[..], [Fault::Fence(..), Fault::Fence(..)]), "{faults:?}");
    }

    #[test]
    fn readers_and_as_many_as_the_limit_says_go_together() {
        use Kind::{Exclusive, Limited, Shared};
        history(&[of(Shared, 0, 10), of(Shared, 1, 20), of(Exclusive, 20, 21), of(Shared, 21, 22)])
            .assert_sound();
        history(&[of(Limited(2), 0, 10), of(Limited(2), 1, 20), of(Limited(2), 10, 11)]).assert_sound();
    }

    #[test]
    fn a_writer_beside_a_reader_is_found_in_either_order() {
        use Kind::{Exclusive, Shared};
        for (first, second) in [(Exclusive, Shared), (Shared, Exclusive), (Exclusive, Exclusive)] {
            let faults = history(&[of(first, 0, 10), of(second, 9, 12)]).faults();
            assert!(matches!(&faults[..], [Fault::Overlap(..)]), "{first} {second}: {faults:?}");
        }
        let faults = history(&[of(Shared, 0, 10), of(Shared, 1, 30), of(Exclusive, 20, 21)]).faults();
        assert!(matches!(&faults[..], [Fault::Overlap(..)]), "the one that is still in: {faults:?}");
    }

    #[test]
    fn one_more_than_the_limit_and_limits_that_differ_are_found() {
        use Kind::{Limited, Shared};
        let faults = history(&[of(Limited(2), 0, 10), of(Limited(2), 1, 20), of(Limited(2), 9, 11)]).faults();
        assert!(matches!(&faults[..], [Fault::Crowd(crowd)] if crowd.len() == 3), "{faults:?}");
        for other in [Shared, Limited(3), Kind::Exclusive] {
            let faults = history(&[of(Limited(2), 0, 10), of(other, 1, 20)]).faults();
            assert!(matches!(&faults[..], [Fault::Overlap(..)]), "{other}: {faults:?}");
        }
    }

    #[test]
    fn a_reader_that_passes_a_writer_in_line_is_found() {
        use Kind::{Exclusive, Shared};
        let faults = history(&[in_line(Exclusive, 0, 1, 9), in_line(Shared, 2, 3, 5)]).faults();
        assert!(matches!(&faults[..], [Fault::Overtaken(..)]), "{faults:?}");
        // Readers may notice their locks in any order, and so may requests that were made at the same time.
        history(&[in_line(Shared, 0, 1, 9), in_line(Shared, 2, 3, 5)]).assert_sound();
        history(&[in_line(Exclusive, 0, 3, 9), in_line(Shared, 2, 4, 5)]).assert_sound();
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for kind in [Kind::Exclusive, Kind::Shared, Kind::Limited(3)] {
            assert_eq!(kind.to_string().parse::<Kind>(), Ok(kind));
        }
        assert!("limited".parse::<Kind>().is_err());
    }
}
