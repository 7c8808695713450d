//! Times with a unit: `250ms`, `30s`, `5m`, `2h`, `1d`. A number without a unit counts seconds.

use std::str::FromStr;
use std::time::Duration;

use distlock::store::kit::duration;

/// A time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let time = if is_number { duration::parse(&format!("{text}s")) } else { duration::parse(text) };
        time.map(Span).ok_or_else(|| {
            format!("`{text}` is not a duration: write, for example, 250ms, 30s, 5m, 2h or 1d")
        })
    }
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    For(Duration),
    Forever,
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Wait::Forever),
            text => text.parse().map(|Span(time)| Wait::For(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in
            [("0", 0), ("3", 3_000), ("3 s", 3_000), ("250ms", 250), ("5m", 300_000), ("1d", 86_400_000)]
        {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(millis))), "{text}");
        }
        assert_eq!("forever".parse(), Ok(Wait::Forever));
        for text in ["", "s", "-1", "1.5s", "99999999999999999999", "18446744073709551615d", "5w"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
