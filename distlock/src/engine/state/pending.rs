//! Pending releases: `leave` commands that the server has not confirmed, because they failed, or that go out
//! once more, because an earlier command of a link that could not be killed may overtake them.
//!
//! There is at most one for each key and token, whatever was asked for and however often it failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::timers::When;
use crate::protocol::{Time, Token};

/// Before a release is repeated for the first time on a link that is up; doubled with every failure …
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// … so often: a server in trouble is asked once in three seconds in the end.
const DOUBLINGS: u32 = 6;
/// So many are remembered in a machine. When there are more, the one that is due first is given up: its lock
/// ends with its ttl.
pub(crate) const MOST: usize = 2048;

#[derive(Clone, Debug)]
pub(crate) struct PendingRelease {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    /// How often it was sent already.
    pub(crate) sends: u32,
    pub(crate) at: When,
    /// When nothing that could be left of the token can exist any more.
    pub(crate) until: Time,
    /// The key is to stay taken until then.
    pub(crate) keep_until: Option<Time>,
}

impl PendingRelease {
    /// How long to wait before it is sent again, without jitter.
    pub(crate) fn pause(&self) -> Duration {
        FIRST_RETRY_PAUSE * 2_u32.pow(self.sends.saturating_sub(1).min(DOUBLINGS))
    }

    /// When to look at it: to send it, or to forget it.
    fn due(&self) -> Time {
        self.at.time().map_or(self.until, |at| at.min(self.until))
    }

    fn merged_with(self, other: PendingRelease) -> PendingRelease {
        PendingRelease {
            sends: self.sends.max(other.sends),
            at: self.at.or_earlier(other.at),
            until: self.until.max(other.until),
            keep_until: self.keep_until.max(other.keep_until),
            ..self
        }
    }
}

/// Those of one machine.
#[derive(Debug, Default)]
pub(crate) struct PendingReleases {
    all: BTreeMap<(Token, Arc<str>), PendingRelease>,
    /// The same by when to look at them.
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
        if self.all.len() >= MOST
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
        self.by_due.first().map(|(due, ..)| *due)
    }

    /// Takes out what is due, in order, and forgets what cannot exist any more.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<PendingRelease> {
        let mut due = Vec::new();
        while self.by_due.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, token, key)) = self.by_due.pop_first() else { break };
            let release = self.all.remove(&(token, key));
            due.extend(release.filter(|release| release.at.time().is_some_and(|at| at <= now)));
        }
        due
    }

    /// There is a new link: takes out all of them, whatever they have waited for.
    pub(crate) fn take_all(&mut self) -> Vec<PendingRelease> {
        self.by_due.clear();
        std::mem::take(&mut self.all).into_values().collect()
    }

    #[cfg(test)]
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (Arc<str>, Token)> {
        self.all.keys().map(|(token, key)| (key.clone(), *token))
    }
}
