//! Finds the violations in a history. The same history always gives the same verdict.
//!
//! Invariant: no overlap is invented. A section counts from when its grant was read until before its release was
//! written. So both of its ends lie within the time in which the library claims that the lock is held.

use std::{collections::HashMap, time::Duration};

use crate::history::{End, Fault, FaultKind, History, Request, Section};

/// The findings of the referee.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Locks that were granted.
    pub sections: usize,
    /// Requests that failed with an error.
    pub errors: usize,
    /// Losses that the library reported to holders.
    pub lost: usize,
    /// Two holders at the same time.
    pub overlaps: Vec<Overlap>,
    /// Tokens that are smaller than an earlier one, or are given twice.
    pub tokens: Vec<TokenFault>,
    /// Requests without an answer in time.
    pub hangs: Vec<Hang>,
    /// The longest time from the end of a fault to the next grant of any key.
    pub recovery: Duration,
    /// The times from a release to the grant of a request that was already waiting, without a fault. They are sorted.
    pub hand_offs: Vec<Duration>,
    /// Jain's index of the number of sections of each place: 1 is equal, 1 ÷ places is one alone.
    pub fairness: f64,
}

/// Why two processes held one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The first holder had no fault.
    Unexplained,
    /// The link of the first holder, or the server, had a fault. Its process ran and could have counted the time.
    CutOff,
    /// The library reported the loss to the first holder, but the message was in flight or late.
    ToldLate,
    /// The process of the first holder was stopped within the last ttl, so it may not have noticed the loss before it
    /// acted. A stop before that excuses nothing: the holder has run for a whole ttl since then.
    Paused,
}

/// Two holders at the same time.
#[derive(Debug, Clone)]
pub struct Overlap {
    /// The number of the key.
    pub key: usize,
    /// The process that held first, and the one that got the lock, too.
    pub processes: (u64, u64),
    /// When the second one got it.
    pub from: Duration,
    /// When the first of both ended.
    pub until: Duration,
    /// How long after `from` the first one ended, which is longer than the overlap if the second one ended before.
    pub late: Duration,
    /// The cause.
    pub cause: Cause,
    /// The library later confirmed the first holder's release, as if it had still held the lock.
    pub told_released: bool,
}

/// A token that does not rise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFault {
    /// The number of the key.
    pub key: usize,
    /// When it was granted.
    pub at: Duration,
    /// The largest one before, and this one.
    pub tokens: (u64, u64),
}

/// A request without an answer in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hang {
    /// The number of the key.
    pub key: usize,
    /// When the request was written.
    pub sent: Duration,
    /// By how much it exceeded its wait limit, without the time of faults.
    pub late_by: Duration,
}

impl Verdict {
    /// Whether nothing was found in this history for which the library is to blame. An overlap is excused if the first
    /// holder was stopped within the last ttl, or reported the loss within a quarter of the ttl.
    #[must_use]
    pub fn is_clean(&self, history: &History) -> bool {
        let told_late =
            |overlap: &Overlap| overlap.cause == Cause::ToldLate && overlap.late > history.ttl / 4;
        self.overlaps_by(Cause::Unexplained) + self.overlaps_by(Cause::CutOff) == 0
            && !self.overlaps.iter().any(told_late)
            && self.tokens.is_empty()
            && self.hangs.is_empty()
            && history.refused_after_calm.is_empty()
            && history.misbehaved.is_empty()
    }

    /// The number of overlaps with this cause.
    #[must_use]
    pub fn overlaps_by(&self, cause: Cause) -> usize {
        self.overlaps.iter().filter(|overlap| overlap.cause == cause).count()
    }

    /// The longest overlap with this cause.
    #[must_use]
    pub fn longest(&self, cause: Cause) -> Duration {
        let lengths = self.overlaps.iter().filter(|overlap| overlap.cause == cause);
        lengths.map(|overlap| overlap.until.saturating_sub(overlap.from)).max().unwrap_or_default()
    }

    /// A hand-off that this share of all hand-offs did not exceed.
    #[must_use]
    pub fn hand_off(&self, share: f64) -> Option<Duration> {
        let last = self.hand_offs.len().checked_sub(1)?;
        self.hand_offs.get((last as f64 * share).round() as usize).copied()
    }
}

/// Judges a history.
#[must_use]
pub fn judge(history: &History) -> Verdict {
    let mut granted: Vec<(&Request, &Section)> =
        history.requests.iter().filter_map(|request| Some((request, request.section.as_ref()?))).collect();
    granted.sort_by_key(|(_, section)| section.from);
    Verdict {
        sections: granted.len(),
        errors: history.requests.iter().filter(|request| request.failed.is_some()).count(),
        lost: granted.iter().filter(|(_, section)| section.end == End::Lost).count(),
        overlaps: overlaps(&granted, history),
        tokens: token_faults(&granted),
        hangs: hangs(history),
        recovery: recovery(&granted, history),
        hand_offs: hand_offs(&granted, &history.faults),
        fairness: fairness(&granted),
    }
}

fn overlaps(granted: &[(&Request, &Section)], history: &History) -> Vec<Overlap> {
    let mut found = Vec::new();
    let mut held: HashMap<usize, Vec<(&Request, &Section)>> = HashMap::new();
    for &(request, section) in granted {
        let held = held.entry(request.key).or_default();
        held.retain(|(_, earlier)| earlier.until > section.from);
        // A section that ended before its grant was read is empty.
        if section.until <= section.from {
            continue;
        }
        for &(first, earlier) in held.iter() {
            found.push(Overlap {
                key: request.key,
                processes: (first.process, request.process),
                from: section.from,
                until: earlier.until.min(section.until),
                late: earlier.until.saturating_sub(section.from),
                cause: cause(first, earlier, section.from, history),
                told_released: earlier.release.as_ref().is_some_and(|release| release.confirmed),
            });
        }
        held.push((request, section));
    }
    found
}

fn cause(first: &Request, earlier: &Section, at: Duration, history: &History) -> Cause {
    let touched = |stopped: bool| {
        let since = if stopped { first.sent.max(at.saturating_sub(history.ttl)) } else { first.sent };
        let kind = |fault: &&Fault| (fault.kind == FaultKind::Stop) == stopped;
        history.faults.iter().filter(kind).any(|fault| fault.touches(first.process, since, at))
    };
    if touched(true) {
        Cause::Paused
    } else if earlier.end == End::Lost {
        Cause::ToldLate
    } else if touched(false) {
        Cause::CutOff
    } else {
        Cause::Unexplained
    }
}

/// A token is compared with those whose grants were read before its own request was written: their order is certain.
fn token_faults(granted: &[(&Request, &Section)]) -> Vec<TokenFault> {
    let mut by_request: Vec<(&Request, &Section, u64)> =
        granted.iter().filter_map(|(request, section)| Some((*request, *section, section.token?))).collect();
    let by_grant = by_request.clone();
    by_request.sort_by_key(|(request, ..)| request.sent);
    let mut earlier = by_grant.iter().peekable();
    let (mut largest, mut given) = (HashMap::<usize, u64>::new(), HashMap::new());
    let mut found = Vec::new();
    for (request, section, token) in by_request {
        while let Some((before, _, token)) = earlier.next_if(|(_, section, _)| section.from <= request.sent) {
            let largest = largest.entry(before.key).or_default();
            *largest = (*largest).max(*token);
        }
        let before = largest.get(&request.key).copied().unwrap_or_default();
        let twice = given.insert((request.key, token), section.from).is_some();
        if twice || token < before {
            let tokens = if twice { (token, token) } else { (before, token) };
            found.push(TokenFault { key: request.key, at: section.from, tokens });
        }
    }
    found
}

fn hangs(history: &History) -> Vec<Hang> {
    let late = |request: &Request, sent: Duration, answered: Option<Duration>, wait: Duration| {
        let until = answered.or(request.abandoned).unwrap_or(history.end);
        let faults = history.faults.iter().filter(|fault| fault.touches(request.process, sent, until));
        let calm = faults.map(|fault| fault.until).max().unwrap_or(sent).max(sent);
        let late_by = until.saturating_sub(calm).saturating_sub(wait);
        (late_by > history.bound).then_some(Hang { key: request.key, sent, late_by })
    };
    let releases = |request: &Request| {
        let release = request.section.as_ref()?.release.as_ref()?;
        late(request, release.sent, release.answered, Duration::ZERO)
    };
    let acquires = history
        .requests
        .iter()
        .filter_map(|request| late(request, request.sent, request.answered, request.wait));
    acquires.chain(history.requests.iter().filter_map(releases)).collect()
}

fn recovery(granted: &[(&Request, &Section)], history: &History) -> Duration {
    let next = |fault: &Fault| {
        let after = granted.partition_point(|(_, section)| section.from < fault.until);
        granted.get(after).map_or(history.end, |(_, section)| section.from).saturating_sub(fault.until)
    };
    history.faults.iter().map(next).max().unwrap_or_default()
}

fn hand_offs(granted: &[(&Request, &Section)], faults: &[Fault]) -> Vec<Duration> {
    let mut released = HashMap::<usize, Duration>::new();
    let mut found = Vec::new();
    for (request, section) in granted {
        if let Some(sent) = released.remove(&request.key) {
            let calm = !faults.iter().any(|fault| fault.from <= section.from && sent <= fault.until);
            if request.sent <= sent && sent <= section.from && calm {
                found.push(section.from.saturating_sub(sent));
            }
        }
        if let (End::Done, Some(release)) = (section.end, &section.release) {
            released.insert(request.key, release.sent);
        }
    }
    found.sort();
    found
}

fn fairness(granted: &[(&Request, &Section)]) -> f64 {
    let mut counts = HashMap::<usize, f64>::new();
    for (request, _) in granted {
        *counts.entry(request.place).or_default() += 1.0;
    }
    let (sum, squares) =
        counts.values().fold((0.0, 0.0), |(sum, squares), count| (sum + count, squares + count * count));
    if squares == 0.0 { 1.0 } else { sum * sum / (counts.len() as f64 * squares) }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
