//! What a client writes about itself and its locks for those who look, as text.
//!
//! Fields are separated by blanks. Fields behind the last that is known are ignored, so later versions may add some.
//! Everybody who may write to the store can write such a text, so nothing of it is taken that is longer than a writer
//! would make it.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use super::Details;
use super::account::{HoldAccount, Met, Who};

/// The longest fields, in bytes. Writers cut what is longer.
pub(crate) const LONGEST_KEY: usize = 1024;
pub(crate) const LONGEST_CLIENT: usize = 128;
const LONGEST_LABEL: usize = 128;
/// The names of a host, of a program and of a version.
const LONGEST_NAME: usize = 255;
/// An escaped character takes so many bytes.
const ESCAPED: usize = 3;

/// A process, as fields.
pub(crate) fn who_text(who: &Who) -> String {
    let pid = who.pid.map(|pid| pid.to_string());
    let fields = [&who.host, &pid, &who.program, &who.version]
        .map(|field| Optional(field.as_deref().map(|name| cut(name, LONGEST_NAME))).to_string());
    let mut text = fields.join(" ");
    if let Some(Met { busy, lost }) = who.met {
        // Writing to a string does not fail.
        let _written: fmt::Result = write!(text, " {busy} {lost}");
    }
    text
}

/// The process that these fields tell of; `None`: of none.
pub(crate) fn read_who_text(text: &str) -> Option<Who> {
    let mut fields = text.split(' ');
    let mut next = || fields.next().map_or(Some(None), |name| optional(name, LONGEST_NAME));
    let (host, pid, program, version) = (next()?, next()?, next()?, next()?);
    let mut count = || fields.next().and_then(|count| count.parse().ok());
    let met = count().zip(count()).map(|(busy, lost)| Met { busy, lost });
    let who = Who { host, pid: pid.and_then(|pid| pid.parse().ok()), program, version, met };
    Some(who).filter(|who| who.host.is_some() || who.pid.is_some())
}

/// The record of a process: how long it lives, and the process.
pub(crate) fn process_record(ttl: Duration, who: &Who) -> String {
    format!("{} {}", ttl.as_millis(), who_text(who))
}

/// The process, and how long ago this was written: a record that lives for `left` more is so much younger than its
/// time to live. No clock of the writer has to agree with ours.
pub(crate) fn read_process_record(text: &str, left: Duration) -> Option<(Who, Duration)> {
    let (ttl, who) = text.split_once(' ')?;
    let ttl = Duration::from_millis(ttl.parse().ok()?);
    Some((read_who_text(who)?, ttl.saturating_sub(left)))
}

/// The record of a lease: how long it lives, for how long the lock is held, how many users it has, and the label.
pub(crate) fn hold_record(ttl: Duration, hold: &HoldAccount) -> String {
    let HoldAccount { users, label, since, .. } = hold;
    let label = Field(cut(label, LONGEST_LABEL));
    format!("{} {} {users} {label}", ttl.as_millis(), since.as_millis())
}

pub(crate) fn read_hold_record(text: &str, left: Duration) -> Option<Details> {
    let mut fields = text.split(' ');
    let (ttl, since) = (millis(&mut fields)?, millis(&mut fields)?);
    let users = Some(fields.next()?.parse().ok()?);
    let label = Some(unescape(fields.next()?, LONGEST_LABEL)?);
    let since = Some(since.saturating_add(ttl.saturating_sub(left)));
    Some(Details { since, users, label, ..Details::default() })
}

fn millis<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<Duration> {
    fields.next()?.parse().ok().map(Duration::from_millis)
}

fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A text as one field: without blanks and line ends, and never empty.
struct Field<'a>(&'a str);

impl Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_char('%');
        }
        for c in self.0.chars() {
            if c.is_ascii_control() || c == ' ' || c == '%' {
                write!(f, "%{:02X}", u32::from(c))?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// A field that may be missing.
struct Optional<'a>(Option<&'a str>);

impl Display for Optional<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // As a value it would be mistaken for "missing".
            Some("-") => f.write_str("%2D"),
            Some(text) => Field(text).fmt(f),
            None => f.write_char('-'),
        }
    }
}

/// `None`: it is garbled or too long; `Some(None)`: it is missing.
fn optional(field: &str, longest: usize) -> Option<Option<String>> {
    if field == "-" { Some(None) } else { unescape(field, longest).map(Some) }
}

/// `None`: it is garbled, or the text is too long.
fn unescape(field: &str, longest: usize) -> Option<String> {
    if field.len() > ESCAPED * longest {
        return None;
    }
    if field == "%" {
        return Some(String::new());
    }
    let mut parts = field.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        let code = u8::from_str_radix(code, 16).ok().filter(u8::is_ascii)?;
        text.push(char::from(code));
        text.push_str(rest);
    }
    Some(text).filter(|text| text.len() <= longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [&str; 8] = ["order:42", "a b", "line\nend", "100%", "%", "", "\u{e4}\u{1f512}", "-"];
    const TTL: Duration = Duration::from_secs(60);

    fn who(name: &str) -> Who {
        Who {
            host: Some("web 1".into()),
            pid: Some(4711),
            program: Some(name.into()),
            version: None,
            met: Some(Met { busy: 3, lost: 1 }),
        }
    }

    #[test]
    fn a_process_is_read_as_it_was_written_whatever_its_name() {
        for name in ODD {
            assert_eq!(read_who_text(&who_text(&who(name))), Some(who(name)));
        }
        assert_eq!(read_who_text(&(who_text(&who("x")) + " and what a later version adds")), Some(who("x")));
        assert_eq!(read_who_text("- - - -"), None);
        assert_eq!(read_who_text(&"A".repeat(5_000_000)), None);
    }

    #[test]
    fn a_record_tells_its_age_by_what_is_left_of_its_life() {
        let text = process_record(TTL, &who("x"));
        let (read, age) = read_process_record(&text, Duration::from_secs(57)).unwrap();
        assert_eq!((read, age), (who("x"), Duration::from_secs(3)));
        // It cannot be younger than new.
        assert_eq!(read_process_record(&text, TTL * 2).unwrap().1, Duration::ZERO);
        for garbled in ["", "60000", "x host 1 p v", "60000 - - - -", "-1 host 1 p v"] {
            assert_eq!(read_process_record(garbled, TTL), None, "{garbled}");
        }
    }

    #[test]
    fn a_hold_is_read_as_it_was_written_and_goes_on_meanwhile() {
        use crate::protocol::{Kind, Token};
        for label in ODD {
            let (token, kind, since) = (Token(7), Kind::Shared, Duration::from_millis(1_500));
            let hold = HoldAccount { token, kind, users: 2, label: label.into(), since, left: TTL };
            let read = read_hold_record(&hold_record(TTL, &hold), TTL - Duration::from_secs(1)).unwrap();
            assert_eq!((read.label.as_deref(), read.users), (Some(label), Some(2)));
            assert_eq!(read.since, Some(Duration::from_millis(2_500)));
        }
        let most = format!("{} {} 1 l", u64::MAX, u64::MAX);
        assert!(read_hold_record(&most, Duration::ZERO).is_some());
        let long = format!("1 1 1 {}", "l".repeat(LONGEST_LABEL + 1));
        for garbled in ["", "1", "1 1 1", "1 1 x l", "1 1 1 %zz", "1 1 1 %E4", &long] {
            assert_eq!(read_hold_record(garbled, TTL), None, "{garbled}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        assert_eq!(cut("\u{e4}\u{e4}", 3), "\u{e4}");
        assert_eq!(cut("abc", 3), "abc");
    }
}
