//! The parameters of a URL, after its `?`.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use super::{NOT_ENCODED, Parts, decoded};
use crate::kit::connection::{CONNECT_TIMEOUTS, ConnectionOptions, RESPONSE_TIMEOUTS};
use crate::kit::duration;
use crate::kit::nearest::nearest;

/// The parameters of a URL, decoded. Each has a known name, and a value. `Debug` shows only the names, because a value
/// may be a password.
#[derive(Clone, Default)]
pub struct Parameters {
    found: Vec<(&'static str, String)>,
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.found.iter().map(|(name, _)| name)).finish()
    }
}

impl Parts<'_> {
    /// Must be read first: an error here may say that a password was not encoded.
    ///
    /// `known` are the names that this URL may have. For some other names, `instead` returns the right spelling.
    ///
    /// # Errors
    ///
    /// A sentence that names the remedy.
    pub fn parameters(
        &self,
        known: &[&'static str],
        instead: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Parameters, String> {
        let mut found: Vec<(&'static str, String)> = Vec::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            let (written, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = known.iter().copied().find(|known| *known == written) else {
                return Err(self.unknown(written, known, instead));
            };
            if found.iter().any(|(other, _)| *other == name) {
                return Err(format!("the URL has `{name}=` twice"));
            }
            let value = decoded(value, &format!("`{name}=`"))?;
            if value.is_empty() {
                return Err(format!("`{name}=` in the URL has no value"));
            }
            found.push((name, value));
        }
        Ok(Parameters { found })
    }

    fn unknown(&self, written: &str, known: &[&str], instead: impl FnOnce(&str) -> Option<String>) -> String {
        if self.may_be_cut() && self.query.contains('@') {
            return NOT_ENCODED.into();
        }
        if written.is_empty() {
            return "a parameter of the URL has no name: write `name=value`, with `&` between two parameters"
                .into();
        }
        let near = || nearest(written, known.iter().map(|name| (*name).to_owned()));
        match instead(written).or_else(|| near().map(|near| format!("did you mean `{near}`?"))) {
            Some(instead) => format!("`{written}` is not a parameter of this URL: {instead}"),
            // It may be part of a password.
            None => {
                let listed: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                format!(
                    "the URL has an unknown parameter: expected one of {}; in a password write `?` as `%3F` \
                     and `&` as `%26`",
                    listed.join(", ")
                )
            }
        }
    }
}

impl Parameters {
    /// The value of a parameter, decoded.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.found.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is a duration: a whole number and a unit, as in the attribute.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        duration::parse(value).map(Some).ok_or_else(|| {
            format!(
                "`{name}=` in the URL is not a duration: write a whole number and a unit, `500ms`, `3s`, `1m`"
            )
        })
    }

    /// A parameter that is a whole number.
    pub fn number<T>(&self, name: &str, valid: RangeInclusive<T>) -> Result<Option<T>, String>
    where
        T: FromStr + PartialOrd + Display,
    {
        let number = |value: &str| value.parse().ok().filter(|number| valid.contains(number));
        let refusal =
            || format!("`{name}=` in the URL is not a number from {} to {}", valid.start(), valid.end());
        self.get(name).map(|value| number(value).ok_or_else(refusal)).transpose()
    }

    /// The time-out `name`: the program's `option`, or the value in the URL, or `default`.
    pub fn time_out(
        &self,
        name: &str,
        option: Option<Duration>,
        default: Duration,
        valid: &RangeInclusive<Duration>,
    ) -> Result<Duration, String> {
        in_limits(name, option.or(self.duration(name)?).unwrap_or(default), valid)
    }

    /// The time-out of a connection attempt, `default` if neither the program nor the URL sets one.
    pub fn connect_timeout(
        &self,
        options: &ConnectionOptions,
        default: Duration,
    ) -> Result<Duration, String> {
        self.time_out("connect_timeout", options.connect_timeout, default, &CONNECT_TIMEOUTS)
    }

    /// The time-out of a reply, `default` if neither the program nor the URL sets one.
    pub fn response_timeout(
        &self,
        options: &ConnectionOptions,
        default: Duration,
    ) -> Result<Duration, String> {
        self.time_out("response_timeout", options.response_timeout, default, &RESPONSE_TIMEOUTS)
    }
}

/// `time`, if it is valid.
pub fn in_limits(name: &str, time: Duration, valid: &RangeInclusive<Duration>) -> Result<Duration, String> {
    if valid.contains(&time) {
        return Ok(time);
    }
    Err(format!("`{name}` is {time:?}: it must be between {:?} and {:?}", valid.start(), valid.end()))
}
