//! The limits and defaults of a request's options.

use std::time::Duration;

use super::{Lingering, LockRequest, Wait, single_attempt};
use crate::backend::{Demand, LockKind};
use crate::engine::{Renewal, WaitLimit, Want};
use crate::error::LockError;
use crate::key::LockKey;
use crate::ttl::valid_ttl;
use distlock_store::engine::Time;

/// Other processes may have to wait for this long although no section uses the lock.
const LONGEST_LINGER: Duration = Duration::from_secs(10);
const SHORTEST_LINGER: Duration = Duration::from_millis(1);

pub(crate) const NO_WAITERS: &str =
    "`max_waiters` is zero: no request could wait; for one attempt use `no_wait`";

impl LockRequest {
    /// The keys and the options of the request, or the reason why it can never be granted.
    pub(super) fn checked(&self, now: Time) -> Result<(&[LockKey], Want), LockError> {
        let keys = self.keys.as_ref().map_err(Clone::clone)?.as_slice();
        let mut want = self.want(now)?;
        self.check_kind(keys.len())?;
        if want.replaces.is_some() {
            // It is answered at once, or the store is unreachable.
            want.wait_limit = WaitLimit::Forever;
            want.unavailable_after = self.manager.defaults().unavailable_after;
            self.check_replacing()?;
        }
        want.linger = self.lingers(keys.len())?.filter(|_| want.replaces.is_none());
        if self.fenced && keys.len() > 1 {
            return Err(LockError::options(
                "several keys have no common fencing token: lock only the key whose token the data checks, \
                 and make it `fenced()`",
            ));
        }
        self.check_store(keys, &want)?;
        Ok((keys, want))
    }

    /// A lock that was handed over is exclusive, and its store supports the hand-over.
    fn check_replacing(&self) -> Result<(), LockError> {
        if self.kind != LockKind::Exclusive {
            return Err(LockError::options(format!("a ticket for an exclusive lock, and {}", self.kind)));
        }
        self.manager.core().backend.cannot_replace().map_or(Ok(()), |reason| Err(LockError::options(reason)))
    }

    fn check_store(&self, keys: &[LockKey], want: &Want) -> Result<(), LockError> {
        let backend = &self.manager.core().backend;
        let Want { kind, ttl, fenced, min_hold, .. } = *want;
        backend.check(&Demand { kind, ttl, fenced, min_hold })?;
        keys.iter().try_for_each(|key| backend.check_key(key))
    }

    fn check_kind(&self, keys: usize) -> Result<(), LockError> {
        match self.kind {
            LockKind::Limited { max_holders: 0 } => {
                Err(LockError::options("`max_holders` is zero: no request could acquire the lock"))
            }
            LockKind::Limited { .. } if keys > 1 => {
                Err(LockError::options("`max_holders` with several keys: lock them one by one"))
            }
            LockKind::Shared | LockKind::Limited { .. } if self.fenced => Err(LockError::options(
                "only exclusive locks have fencing tokens: holders that share a lock have no order",
            )),
            _ => Ok(()),
        }
    }

    /// How long the lease may stay with this process. The manager's default applies only to requests that can linger.
    fn lingers(&self, keys: usize) -> Result<Option<Duration>, LockError> {
        let objection = if self.kind != LockKind::Exclusive {
            Some("`linger` is for exclusive locks: a lock for several holders does not stay with one process")
        } else if keys > 1 {
            Some("`linger` with several keys: only a lock of one key is kept")
        } else if self.min_hold.is_some() {
            Some(
                "`linger` with `min_hold`: `min_hold` keeps this process out, too, but `linger` lets it \
                 return",
            )
        } else {
            None
        };
        match (self.linger, objection) {
            (Lingering::For(_), Some(objection)) => Err(LockError::options(objection)),
            (Lingering::For(linger), None) => {
                self.manager.core().backend.keeps_between_sections()?;
                valid_linger(linger).map(Some)
            }
            (Lingering::Default, None) => Ok(self.manager.defaults().linger),
            (Lingering::Default, Some(_)) | (Lingering::Never, _) => Ok(None),
        }
    }

    /// Checks the options and fills in the defaults.
    fn want(&self, now: Time) -> Result<Want, LockError> {
        let defaults = self.manager.defaults();
        let ttl = valid_ttl(self.ttl.unwrap_or(defaults.ttl))?;
        if self.max_hold.is_some_and(|hold| hold.is_zero()) {
            return Err(LockError::options("`max_hold` is zero: leave it out for no limit"));
        }
        let max_waiters = self.max_waiters.or(defaults.max_waiters);
        if max_waiters == Some(0) {
            return Err(LockError::options(NO_WAITERS));
        }
        if self.renewal == Renewal::Never && self.min_hold.is_some_and(|hold| hold > ttl) {
            return Err(LockError::options(
                "`min_hold` is longer than the ttl, and renewal is off: make the ttl longer",
            ));
        }
        let (wait_limit, unavailable_after) = match self.wait {
            Wait::Default => waiting(now, defaults.wait, defaults.unavailable_after),
            Wait::For(wait) => waiting(now, wait, defaults.unavailable_after),
            Wait::Forever => (WaitLimit::Forever, defaults.unavailable_after),
            Wait::Retry(_) => waiting(now, Duration::ZERO, defaults.unavailable_after),
        };
        Ok(Want {
            kind: self.kind,
            ttl,
            renewal: self.renewal,
            wait_limit,
            unavailable_after,
            fenced: self.fenced,
            max_waiters,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            linger: None,
            replaces: self.replaces.clone(),
            own_lease: self.own_lease,
            collection: None,
            label: self.label.clone(),
        })
    }
}

/// A wait of zero is one attempt. The server has a short time to answer it.
fn waiting(now: Time, wait: Duration, unavailable_after: Duration) -> (WaitLimit, Duration) {
    if wait.is_zero() {
        (WaitLimit::Once, single_attempt::reach(unavailable_after))
    } else {
        (WaitLimit::Until(now.after(wait)), unavailable_after.min(wait))
    }
}

/// Counted in whole milliseconds.
pub(crate) fn valid_linger(linger: Duration) -> Result<Duration, LockError> {
    if !(SHORTEST_LINGER..=LONGEST_LINGER).contains(&linger) {
        return Err(LockError::options(format!(
            "a `linger` of {linger:?}: it must be between {SHORTEST_LINGER:?} and {LONGEST_LINGER:?}"
        )));
    }
    Ok(Duration::from_millis(u64::try_from(linger.as_millis()).unwrap_or(u64::MAX)))
}
