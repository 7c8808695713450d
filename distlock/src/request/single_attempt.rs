//! How long a request that does not wait gives the server to answer.

use std::time::Duration;

/// All of its keys together.
const MAX_TIMEOUT: Duration = Duration::from_secs(1);
/// The remaining time is counted in these steps, because a few different time limits are cheap to watch.
const TIMEOUT_STEP: Duration = Duration::from_millis(100);

/// `unavailable_after`: how long the server may be unreachable before a request that waits fails.
pub(crate) fn reach(unavailable_after: Duration) -> Duration {
    unavailable_after.min(MAX_TIMEOUT)
}

/// The rest of `reach` for the next keys. Zero: they are not requested.
pub(crate) fn left(reach: Duration, spent: Duration) -> Duration {
    if spent < TIMEOUT_STEP {
        return reach;
    }
    let steps = reach.saturating_sub(spent).as_millis() / TIMEOUT_STEP.as_millis();
    TIMEOUT_STEP * u32::try_from(steps).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_together_have_no_more_than_the_time_of_one() {
        let ms = Duration::from_millis;
        for spent in (0..1_500).map(ms) {
            let all = spent + left(reach(ms(3_000)), spent);
            assert!(all <= MAX_TIMEOUT + TIMEOUT_STEP || left(MAX_TIMEOUT, spent).is_zero(), "{spent:?}");
            assert!(spent < TIMEOUT_STEP || all <= MAX_TIMEOUT.max(spent), "{spent:?}");
        }
        assert_eq!(left(ms(50), ms(1)), ms(50), "the first command");
        assert_eq!(left(MAX_TIMEOUT, ms(150)), ms(800));
        assert_eq!(left(MAX_TIMEOUT, ms(950)), Duration::ZERO);
    }
}
