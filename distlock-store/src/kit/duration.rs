//! Durations as people write them.

use std::time::Duration;

/// A whole number and a unit, as in the attribute: `250ms`, `10s`, `5m`, `1h`, `2d`. `None`: the text is invalid, or
/// the duration is too long.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::kit::duration;
///
/// assert_eq!(duration::parse("250ms"), Some(Duration::from_millis(250)));
/// assert_eq!(duration::parse("250"), None);
/// ```
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let millis: u64 = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis).map(Duration::from_millis)
}
