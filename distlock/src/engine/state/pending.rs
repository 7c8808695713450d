//! Pending releases: release commands that the server has not confirmed. Some failed. Others are sent a
//! second time, because an earlier command of a link that could not be killed may overtake them.
//!
//! There is at most one for each key and token, however often it was requested or failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::earlier;
use crate::protocol::{Time, Token, When};

/// The pause before the first repetition of a release while the link is up. It doubles with every failure …
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// … this many times: in the end about one try in three seconds.
const MAX_PAUSE_DOUBLINGS: u32 = 6;
/// In the end, and from the beginning for one that the server refuses.
pub(crate) const LONGEST_RETRY_PAUSE: Duration = FIRST_RETRY_PAUSE.saturating_mul(1 << MAX_PAUSE_DOUBLINGS);
/// The most pending releases in one machine. Above that, the one that is due first is given up: its lock ends
/// with its ttl. A lock that ends with a session is never given up. There are only as many as were held.
pub(crate) const MAX_PENDING_RELEASES: usize = 2048;

#[derive(Clone, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    /// How often the release was sent.
    pub(crate) sends: u32,
    pub(crate) at: When,
    /// When nothing of the token can be left on the server; `None`: not while the session lives.
    pub(crate) until: Option<Time>,
    /// The key stays taken until then (`min_hold`).
    pub(crate) keep_until: Option<Time>,
}

impl PendingRelease {
    /// The pause before the next try, without jitter.
    pub(crate) fn pause(&self) -> Duration {
        FIRST_RETRY_PAUSE * 2_u32.pow(self.sends.saturating_sub(1).min(MAX_PAUSE_DOUBLINGS))
    }

    /// When to look at it: to send it again, or to forget it. Never before the next link: [`Time::MAX`].
    fn due(&self) -> Time {
        earlier(self.at.time(), self.until).unwrap_or(Time::MAX)
    }

    fn merged_with(self, other: PendingRelease) -> PendingRelease {
        PendingRelease {
            sends: self.sends.max(other.sends),
            at: self.at.or_earlier(other.at),
            until: self.until.zip(other.until).map(|(one, other)| one.max(other)),
            keep_until: self.keep_until.max(other.keep_until),
            ..self
        }
    }
}

/// The pending releases of one machine.
#[derive(Debug, Default)]
pub(crate) struct PendingReleases {
    all: BTreeMap<(Token, Arc<str>), PendingRelease>,
    /// The same, ordered by when to look at them.
    by_due: BTreeSet<(Time, Token, Arc<str>)>,
}

impl PendingReleases {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn add(&mut self, release: PendingRelease) {
        let merged = match self.take(&(release.token, release.key.clone())) {
            Some(known) => known.merged_with(release),
            None => release,
        };
        if merged.until.is_some()
            && self.all.len() >= MAX_PENDING_RELEASES
            && let Some((_, token, key)) = self.by_due.pop_first()
        {
            self.all.remove(&(token, key));
        }
        let (token, key) = (merged.token, merged.key.clone());
        self.by_due.insert((merged.due(), token, key.clone()));
        self.all.insert((token, key), merged);
    }

    fn take(&mut self, id: &(Token, Arc<str>)) -> Option<PendingRelease> {
        let release = self.all.remove(id)?;
        self.by_due.remove(&(release.due(), release.token, release.key.clone()));
        Some(release)
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.by_due.first().map(|(due, ..)| *due).filter(|due| *due < Time::MAX)
    }

    /// Takes out the releases that are due, in order. Forgets those of which nothing can be left on the server.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<PendingRelease> {
        let mut due = Vec::new();
        while self.by_due.first().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, token, key)) = self.by_due.pop_first() else { break };
            let release = self.all.remove(&(token, key));
            due.extend(release.filter(|release| release.at.time().is_some_and(|at| at <= now)));
        }
        due
    }

    /// Takes out all of them, whether they are due or not: there is a new link.
    pub(crate) fn take_all(&mut self) -> Vec<PendingRelease> {
        self.by_due.clear();
        std::mem::take(&mut self.all).into_values().collect()
    }

    #[cfg(test)]
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (Arc<str>, Token)> {
        self.all.keys().map(|(token, key)| (key.clone(), *token))
    }
}
