//! Which keys were recently found busy.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::protocol::Time;

/// Which keys were recently found busy. For them the full acquire command is sent at once, because the cheap
/// one would only be refused. Small and lossy: a wrong hint costs one cheap command.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    busy: [Option<Hint>; Hints::MAX_HINTS],
    /// From then on no hint is valid. So for most keys nothing is looked up.
    last_until: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Hint {
    /// The hash of the key.
    key: u64,
    until: Time,
    /// Until when we keep away from the key: we left it free for plain pollers.
    gap: Option<Time>,
}

impl Hints {
    const MAX_HINTS: usize = 32;
    const LIFETIME: Duration = Duration::from_secs(2);

    fn slot(key: &str) -> (usize, u64) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        (usize::try_from(hash % 32).unwrap_or(0), hash)
    }

    fn of(&self, key: &str, now: Time) -> Option<Hint> {
        self.last_until.filter(|until| now < *until)?;
        let (slot, hash) = Hints::slot(key);
        self.busy[slot].filter(|hint| hint.key == hash)
    }

    fn remember(&mut self, key: &str, now: Time, gap: Option<Time>) {
        let (slot, hash) = Hints::slot(key);
        let until = now.after(Hints::LIFETIME);
        self.busy[slot] = Some(Hint { key: hash, until, gap });
        self.last_until = self.last_until.max(Some(until)).max(gap);
    }

    pub(crate) fn contended(&mut self, key: &str, now: Time) {
        self.remember(key, now, self.gap_ends(key, now));
    }

    /// This process has left the key free. It must not ask again before plain pollers have had a chance.
    pub(crate) fn left_free(&mut self, key: &str, now: Time, gap: Duration) {
        self.remember(key, now, Some(now.after(gap)));
    }

    pub(crate) fn gap_ends(&self, key: &str, now: Time) -> Option<Time> {
        self.of(key, now)?.gap.filter(|gap| now < *gap)
    }

    pub(crate) fn is_contended(&self, key: &str, now: Time) -> bool {
        self.of(key, now).is_some_and(|hint| now < hint.until)
    }
}
