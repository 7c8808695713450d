//! Durations written as a number and a unit: `"250ms"`, `"10s"`, `"5m"`, `"1h"`, `"2d"`.
//!
//! A pure function from text to whole milliseconds. Its errors contain the parts of the message.

/// The units, longest first, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// The longest duration that is accepted, a year: the runtime refuses a longer ttl, and longer times of another
/// kind are typing errors. A test compares both ends of the range with the runtime's.
pub(crate) const LONGEST: u64 = 365 * 86_400_000;

/// The shortest ttl that the runtime accepts.
pub(crate) const SHORTEST_TTL: u64 = 10;
/// The longest `linger`, in milliseconds.
pub(crate) const LONGEST_LINGER: u64 = 10_000;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DurationError {
    /// Nothing, or only white space.
    Empty,
    /// It does not start with a digit.
    NotANumber,
    /// A minus sign in front.
    Negative,
    /// A bare number.
    NoUnit {
        /// The number as it was written.
        number: String,
    },
    /// A number followed by something that is not a unit.
    UnknownUnit {
        /// The text at the place of the unit.
        unit: String,
        /// The whole duration with the unit that was probably meant.
        suggestion: Option<String>,
    },
    /// A decimal point.
    Fraction {
        /// The same duration in a smaller unit, where it is a whole number of milliseconds.
        suggestion: Option<String>,
    },
    /// Several numbers with units.
    Compound {
        /// The same duration as one number.
        suggestion: String,
    },
    /// More than can be represented, or than makes sense.
    Overflow,
}

/// Reads a duration, in milliseconds.
pub(crate) fn parse(text: &str) -> Result<u64, DurationError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text.starts_with('-') {
        return Err(DurationError::Negative);
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_').len();
    let (number, rest) = text.split_at(digits);
    let number = number.replace('_', "");
    if number.is_empty() {
        return Err(DurationError::NotANumber);
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        return Err(DurationError::Fraction { suggestion: without_fraction(&number, fraction) });
    }
    let unit = rest.trim_start();
    if unit.is_empty() {
        return Err(DurationError::NoUnit { number });
    }
    match unit_length(unit) {
        Some(length) => whole(&number, length).ok_or(DurationError::Overflow),
        None => Err(match sum(text) {
            Some(total) => DurationError::Compound { suggestion: in_largest_unit(total) },
            None => {
                let suggestion = probable_unit(unit).map(|unit| format!("{number}{unit}"));
                DurationError::UnknownUnit { unit: unit.to_owned(), suggestion }
            }
        }),
    }
}

fn unit_length(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, length)| *length)
}

fn whole(number: &str, length: u64) -> Option<u64> {
    let total = number.parse::<u64>().ok()?.checked_mul(length)?;
    (total <= LONGEST).then_some(total)
}

/// `1.5s` as `1500ms`, where that is exact.
fn without_fraction(number: &str, fraction: &str) -> Option<String> {
    let digits = fraction.len() - fraction.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (fraction, unit) = fraction.split_at(digits);
    // Without a unit it is certainly not milliseconds.
    let unit = if unit.trim().is_empty() { "s" } else { unit.trim_start() };
    let length = unit_length(unit)?;
    let scale = 10u64.checked_pow(u32::try_from(digits).ok()?)?;
    let part = fraction.parse::<u64>().ok()?.checked_mul(length)?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    let total = whole(number, length)?.checked_add(part / scale)?;
    (total > 0).then(|| in_largest_unit(total))
}

/// The sum of `1h 30m`, if every piece is a number with a unit.
fn sum(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        total = total.checked_add(whole(number, unit_length(unit)?)?)?;
        rest = after.trim_start();
    }
    Some(total)
}

/// Milliseconds in the largest unit that divides them.
pub(crate) fn in_largest_unit(total: u64) -> String {
    let (unit, length) =
        UNITS.iter().rev().find(|(_, length)| total.is_multiple_of(*length)).unwrap_or(&UNITS[0]);
    format!("{}{unit}", total / length)
}

/// The unit that was probably meant by an unknown one.
fn probable_unit(unit: &str) -> Option<&'static str> {
    let unit = unit.to_ascii_lowercase();
    Some(match unit.as_str() {
        "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        assert_eq!(parse("250ms"), Ok(250));
        assert_eq!(parse("10s"), Ok(10_000));
        assert_eq!(parse(" 5 m "), Ok(300_000));
        assert_eq!(parse("1h"), Ok(3_600_000));
        assert_eq!(parse("2d"), Ok(172_800_000));
        assert_eq!(parse("1_500ms"), Ok(1_500));
        assert_eq!(parse("0s"), Ok(0));
    }

    #[test]
    fn mistakes_are_told_apart() {
        assert_eq!(parse("  "), Err(DurationError::Empty));
        assert_eq!(parse("soon"), Err(DurationError::NotANumber));
        assert_eq!(parse("-1s"), Err(DurationError::Negative));
        assert_eq!(parse("10"), Err(DurationError::NoUnit { number: "10".into() }));
        assert_eq!(parse("99999999999999999999s"), Err(DurationError::Overflow));
        assert_eq!(parse("18446744073709551615s"), Err(DurationError::Overflow));
        assert_eq!(parse("365d"), Ok(LONGEST));
        assert_eq!(parse("366d"), Err(DurationError::Overflow));
    }

    #[test]
    fn unknown_units_get_a_suggestion() {
        let unknown = |unit: &str, suggestion: Option<&str>| {
            Err(DurationError::UnknownUnit { unit: unit.into(), suggestion: suggestion.map(Into::into) })
        };
        assert_eq!(parse("10sec"), unknown("sec", Some("10s")));
        assert_eq!(parse("3 Minutes"), unknown("Minutes", Some("3m")));
        assert_eq!(parse("5 apples"), unknown("apples", None));
        assert_eq!(parse("5us"), unknown("us", None));
    }

    #[test]
    fn fractions_are_rewritten_exactly() {
        let fraction = |suggestion: Option<&str>| {
            Err(DurationError::Fraction { suggestion: suggestion.map(Into::into) })
        };
        assert_eq!(parse("1.5s"), fraction(Some("1500ms")));
        assert_eq!(parse("0.5h"), fraction(Some("30m")));
        assert_eq!(parse("1.5"), fraction(Some("1500ms")));
        assert_eq!(parse("0.0001s"), fraction(None));
        assert_eq!(parse("1.x"), fraction(None));
    }

    #[test]
    fn compound_durations_are_added_up() {
        assert_eq!(parse("1m30s"), Err(DurationError::Compound { suggestion: "90s".into() }));
        assert_eq!(parse("1h 30m"), Err(DurationError::Compound { suggestion: "90m".into() }));
    }
}
