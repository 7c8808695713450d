//! The judge of a soak: it checks the sections and failures of one round against the promises of a lock. It shares no
//! code with the judge of the other tests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use crate::record::{Failure, Kind, Section, Write};

/// `min_hold` is counted from the instant at which the request got the lock, a little before its caller knows it.
const KNOWN_AFTER: u64 = 100_000;
/// A lease is checked every few milliseconds, so a cap that was exceeded is noticed this much later.
const GRAIN: u64 = 20_000;
/// How much longer than its limit a request or a release may take on a busy machine.
const LATE: u64 = 2_000_000;
/// The time limit of a release, which returns the outcome or reports that it is unknown.
const RELEASE: u64 = 3_000_000;
/// The errors that callers may get. Any other error is a bug of the library or of the soak.
pub(crate) const EXPECTED: [&str; 4] = ["Busy", "Lost", "Unavailable", "Cancelled"];

/// A span of time in which two holders are possible by design.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excuse {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// How much of the time between two instants is excused.
pub(crate) fn excused(excuses: &[Excuse], begin: u64, end: u64) -> Duration {
    let mut spans: Vec<_> =
        excuses.iter().map(|excuse| (excuse.from.max(begin), excuse.to.min(end))).collect();
    spans.sort_unstable();
    let (mut all, mut counted) = (0, begin);
    for (from, to) in spans {
        all += to.saturating_sub(from.max(counted));
        counted = counted.max(to);
    }
    Duration::from_micros(all)
}

/// The events of a round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) sections: Vec<Section>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) excuses: Vec<Excuse>,
    /// There are no faults after this time.
    pub(crate) calm: u64,
}

/// The breaches of a round, or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) sections: usize,
    /// How often each promise was broken, and the first example.
    pub(crate) breaches: BTreeMap<Breach, (usize, String)>,
    /// Breaches while two holders were possible by design. They are not counted above.
    pub(crate) by_design: usize,
    /// The longest time that a request took after the calm had begun, in microseconds.
    pub(crate) longest_wait: u64,
    pub(crate) errors: BTreeMap<String, usize>,
}

impl Verdict {
    /// How often this promise was broken.
    pub(crate) fn count(&self, breach: Breach) -> usize {
        self.breaches.get(&breach).map_or(0, |(count, _)| *count)
    }

    /// The number of violations, without those of times, which a slow machine may cause.
    pub(crate) fn broken(&self) -> usize {
        self.breaches.values().map(|(count, _)| count).sum::<usize>() - self.count(Breach::Overdue)
    }

    /// Adds the verdict of another round.
    pub(crate) fn add(&mut self, other: Verdict) {
        self.sections += other.sections;
        self.by_design += other.by_design;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        for (name, count) in other.errors {
            *self.errors.entry(name).or_default() += count;
        }
        for (breach, (count, example)) in other.breaches {
            self.breaches.entry(breach).or_insert((0, example)).0 += count;
        }
    }

    fn note(&mut self, breach: Breach, example: impl FnOnce() -> String) {
        self.breaches.entry(breach).or_insert_with(|| (0, example())).0 += 1;
    }
}

/// How a promise can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    Overlap,
    /// A section began while a `min_hold` should have excluded it.
    TooEarly,
    RepeatedToken,
    FallingToken,
    DisorderedWrite,
    Overdue,
    TooLong,
    Unexpected,
}

/// Remembers every token of a run.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    tokens: HashMap<String, HashSet<u64>>,
}

impl Judge {
    pub(crate) fn judge(&mut self, round: &Round) -> Verdict {
        let mut verdict = Verdict { sections: round.sections.len(), ..Verdict::default() };
        let mut by_key: HashMap<&str, Vec<&Section>> = HashMap::new();
        for section in &round.sections {
            judge_alone(section, round, &mut verdict);
            for key in &section.keys {
                by_key.entry(key).or_default().push(section);
            }
        }
        for (key, mut sections) in by_key {
            sections.sort_by_key(|section| section.times.entered);
            self.judge_tokens(key, &sections, round, &mut verdict);
            judge_order(key, &sections, round, &mut verdict);
            judge_overlaps(key, &sections, round, &mut verdict);
        }
        for failure in &round.failures {
            judge_failure(failure, round, &mut verdict);
        }
        verdict
    }

    fn judge_tokens(&mut self, key: &str, sections: &[&Section], round: &Round, verdict: &mut Verdict) {
        let known = self.tokens.entry(key.to_owned()).or_default();
        for section in sections {
            if section.token.is_some_and(|token| !known.insert(token)) {
                note(round, section, verdict, Breach::RepeatedToken, || format!("`{key}`: {section:?}"));
            }
        }
    }
}

/// Records a violation, unless two holders were possible by design at that time.
fn note(
    round: &Round,
    section: &Section,
    verdict: &mut Verdict,
    breach: Breach,
    example: impl FnOnce() -> String,
) {
    let (from, to) = (section.times.entered, section.times.left.max(section.times.entered));
    if round.excuses.iter().any(|excuse| from <= excuse.to && to >= excuse.from) {
        verdict.by_design += 1;
    } else {
        verdict.note(breach, example);
    }
}

fn judge_alone(section: &Section, round: &Round, verdict: &mut Verdict) {
    let times = section.times;
    if matches!(section.write, Write::RefusedWhileHeld | Write::Repeated) {
        note(round, section, verdict, Breach::DisorderedWrite, || format!("{section:?}"));
    }
    if section.cap > 0 && times.left.saturating_sub(times.entered) > section.cap + GRAIN {
        verdict.note(Breach::TooLong, || format!("{section:?}"));
    }
    if times.entered - times.asked > times.allowed + times.stalled + LATE {
        verdict.note(Breach::Overdue, || format!("{section:?}"));
    }
    if times.released > 0
        && times.released.saturating_sub(times.left.max(times.entered)) > RELEASE + times.stalled + LATE
    {
        verdict.note(Breach::Overdue, || format!("release: {section:?}"));
    }
    note_wait(times.asked, times.entered, round, verdict);
}

fn judge_failure(failure: &Failure, round: &Round, verdict: &mut Verdict) {
    *verdict.errors.entry(failure.variant.clone()).or_default() += 1;
    if !EXPECTED.contains(&failure.variant.as_str()) {
        verdict.note(Breach::Unexpected, || format!("{failure:?}"));
    }
    if failure.ended - failure.asked > failure.allowed + failure.stalled + LATE {
        verdict.note(Breach::Overdue, || format!("{failure:?}"));
    }
    if failure.variant == "Unavailable" {
        note_wait(failure.asked, failure.ended, round, verdict);
    }
}

fn note_wait(asked: u64, ended: u64, round: &Round, verdict: &mut Verdict) {
    if round.calm > 0 && ended > round.calm {
        verdict.longest_wait = verdict.longest_wait.max(ended - asked.max(round.calm));
    }
}

/// Checks that tokens rise from each section to those that began after its end.
fn judge_order(key: &str, sections: &[&Section], round: &Round, verdict: &mut Verdict) {
    let fenced = || sections.iter().filter(|section| section.token.is_some() && section.times.left > 0);
    let mut by_end: Vec<&Section> = fenced().copied().collect();
    by_end.sort_by_key(|section| section.times.left);
    let (mut ended, mut highest) = (by_end.iter().peekable(), 0);
    for section in fenced() {
        while let Some(before) = ended.next_if(|before| before.times.left < section.times.entered) {
            highest = highest.max(before.token.unwrap_or(0));
        }
        if section.token.is_some_and(|token| token < highest) {
            let example = || format!("`{key}`: {section:?} after {highest}");
            note(round, section, verdict, Breach::FallingToken, example);
        }
    }
}

/// Checks every section against those that are active when it begins.
fn judge_overlaps(key: &str, sections: &[&Section], round: &Round, verdict: &mut Verdict) {
    let mut inside: Vec<&Section> = Vec::new();
    for section in sections.iter().filter(|section| section.times.left > 0) {
        let entered = section.times.entered;
        inside.retain(|other| other.times.left > entered || kept_until(other) > entered);
        let holding: Vec<&Section> =
            inside.iter().copied().filter(|other| other.times.left > entered).collect();
        let overlaps = excludes(&holding, section.kind);
        if overlaps || excludes(&inside, section.kind) {
            let breach = if overlaps { Breach::Overlap } else { Breach::TooEarly };
            let example = || format!("`{key}`: {section:?} while in: {inside:?}");
            note(round, section, verdict, breach, example);
        }
        inside.push(section);
    }
}

/// Whether these sections exclude one of this kind.
fn excludes(others: &[&Section], kind: Kind) -> bool {
    match kind {
        Kind::Exclusive => !others.is_empty(),
        Kind::Shared => others.iter().any(|other| other.kind != Kind::Shared),
        Kind::Limited(limit) => {
            others.len() >= usize::try_from(limit).unwrap_or(usize::MAX)
                || others.iter().any(|other| other.kind != kind)
        }
    }
}

/// Until when `min_hold` excludes all other processes.
fn kept_until(section: &Section) -> u64 {
    if section.min_hold == 0 {
        0
    } else {
        // A stopped process may have noticed it later.
        let late = KNOWN_AFTER + section.times.stalled;
        section.times.entered + section.min_hold.saturating_sub(late)
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
