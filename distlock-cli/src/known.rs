//! The holders of the last listing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use distlock::LockHolder;

/// How many holders are remembered that an incomplete look did not list.
const MOST_KEPT: usize = 10_000;

/// The key and the token.
pub(crate) type Name = (String, String);

/// A holder as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct KnownHolder {
    pub(crate) holder: LockHolder,
    at: Instant,
    /// Whether its process sent no heartbeat.
    is_silent: bool,
    /// The longest rest of its lease that any look has seen.
    longest: Option<Duration>,
}

/// The holders of the last listing, and earlier holders that an incomplete listing did not reach.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<Name, KnownHolder>);

impl Known {
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Makes the last listing older.
    #[cfg(test)]
    pub(crate) fn age(&mut self, by: Duration) {
        for seen in self.0.values_mut() {
            seen.at = seen.at.checked_sub(by).expect("the machine runs for longer");
        }
    }

    /// Adds a listing. Returns the holders that have released or lost the lock since the last listing: those that the
    /// listing would contain (`would_list`), and does not.
    pub(crate) fn update(
        &mut self,
        listed: BTreeMap<Name, KnownHolder>,
        would_list: impl Fn(&Name) -> bool,
    ) -> Vec<(Name, KnownHolder)> {
        let before = std::mem::replace(&mut self.0, listed);
        let (mut gone, mut missing) = (Vec::new(), Vec::new());
        for (name, seen) in before {
            match self.0.get_mut(&name) {
                Some(now) => now.longest = now.longest.max(seen.longest),
                None if would_list(&name) => gone.push((name, seen)),
                None => missing.push((name, seen)),
            }
        }
        self.0.extend(missing.into_iter().take(MOST_KEPT));
        gone
    }
}

impl KnownHolder {
    pub(crate) fn now(holder: LockHolder, is_silent: bool) -> Self {
        let longest = holder.remaining;
        KnownHolder { holder, at: Instant::now(), is_silent, longest }
    }

    /// Whether the last look showed that its lease was not renewed. A lease that is renewed in time always has two
    /// thirds of its ttl.
    pub(crate) fn was_not_renewed(&self) -> bool {
        let is_low =
            self.holder.remaining.zip(self.longest).is_some_and(|(rest, longest)| rest < longest / 2);
        self.is_silent || is_low
    }

    /// The present rest of its lease, if it was not renewed.
    pub(crate) fn left(&self) -> Duration {
        self.holder.remaining.unwrap_or(Duration::MAX).saturating_sub(self.at.elapsed())
    }
}
