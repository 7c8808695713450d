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
}

/// The holders of the last listing, and earlier holders that an incomplete listing did not reach.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<Name, KnownHolder>);

impl Known {
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Adds a listing. Returns the holders that have released or lost the lock since the last listing: those that a
    /// complete listing no longer contains.
    pub(crate) fn update(
        &mut self,
        listed: BTreeMap<Name, KnownHolder>,
        is_whole: bool,
    ) -> Vec<(Name, KnownHolder)> {
        let before = std::mem::replace(&mut self.0, listed);
        let missing: Vec<(Name, KnownHolder)> =
            before.into_iter().filter(|(name, _)| !self.0.contains_key(name)).collect();
        if is_whole {
            return missing;
        }
        self.0.extend(missing.into_iter().take(MOST_KEPT));
        Vec::new()
    }
}

impl KnownHolder {
    pub(crate) fn now(holder: LockHolder) -> Self {
        KnownHolder { holder, at: Instant::now() }
    }

    /// The present rest of its lease, if it was not renewed.
    pub(crate) fn left(&self) -> Duration {
        self.holder.remaining.unwrap_or(Duration::MAX).saturating_sub(self.at.elapsed())
    }
}
