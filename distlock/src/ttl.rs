//! The limits of a ttl.

use std::time::Duration;

use crate::error::LockError;

/// A shorter ttl would be over before the network and the scheduler respond.
const SHORTEST_TTL: Duration = Duration::from_millis(10);
/// A longer ttl is probably a mistake.
const LONGEST_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Leases are counted in whole milliseconds.
pub(crate) fn valid_ttl(ttl: Duration) -> Result<Duration, LockError> {
    if ttl < SHORTEST_TTL {
        return Err(LockError::options(format!(
            "a ttl of {ttl:?} is too short: the shortest is {SHORTEST_TTL:?}"
        )));
    }
    if ttl > LONGEST_TTL {
        return Err(LockError::options(format!("a ttl of {ttl:?} is too long: the longest is 365 days")));
    }
    Ok(Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)))
}
