//! The text that a client writes about itself and its locks, for operators.
//!
//! Fields are separated by blanks. Unknown fields at the end are ignored, so later versions may add fields. Anyone with
//! write access to the store can write such a text, so a reader rejects a field that is longer than a writer would make
//! it.

use std::time::Duration;

use distlock_store::LONGEST_VALUE;
use distlock_store::engine::fields::{Field, cut, unescape};

use super::account::HoldAccount;
use super::{OwnerDetails, Who};

/// The longest fields, in bytes. Writers cut longer texts.
pub(crate) const LONGEST_KEY: usize = 1024;
pub(crate) const LONGEST_CLIENT: usize = 128;
const LONGEST_LABEL: usize = 128;

/// The record of a process: how long it lives, and the process.
pub(crate) fn process_record(ttl: Duration, who: &Who) -> String {
    format!("{} {}", ttl.as_millis(), who.to_text())
}

/// The process, and how long ago this was written: a record that lives for `left` more is so much younger than its
/// time to live. No clock of the writer has to agree with ours.
pub(crate) fn read_process_record(text: &str, left: Duration) -> Option<(Who, Duration)> {
    let (ttl, who) = text.split_once(' ')?;
    let ttl = Duration::from_millis(ttl.parse().ok()?);
    Some((Who::from_text(who)?, ttl.saturating_sub(left)))
}

/// The record of a lease: how long it lives, for how long the lock is held, how many users it has, the label, and what
/// the holder publishes.
pub(crate) fn hold_record(ttl: Duration, hold: &HoldAccount, value: Option<&str>) -> String {
    let HoldAccount { users, label, since, .. } = hold;
    let label = Field(cut(label, LONGEST_LABEL));
    let value = value.map(|value| format!(" {}", Field(cut(value, LONGEST_VALUE)))).unwrap_or_default();
    format!("{} {} {users} {label}{value}", ttl.as_millis(), since.as_millis())
}

pub(crate) fn read_hold_record(text: &str, left: Duration) -> Option<OwnerDetails> {
    let mut fields = text.split(' ');
    let (ttl, since) = (millis(&mut fields)?, millis(&mut fields)?);
    let users = Some(fields.next()?.parse().ok()?);
    let label = Some(unescape(fields.next()?, LONGEST_LABEL)?);
    let since = Some(since.saturating_add(ttl.saturating_sub(left)));
    let value = fields.next().and_then(|value| unescape(value, LONGEST_VALUE));
    Some(OwnerDetails { since, users, label, value, ..OwnerDetails::default() })
}

fn millis<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<Duration> {
    fields.next()?.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [&str; 8] = ["order:42", "a b", "line\nend", "100%", "%", "", "\u{e4}\u{1f512}", "-"];
    const TTL: Duration = Duration::from_secs(60);

    fn who(name: &str) -> Who {
        Who { host: Some("web 1".into()), program: Some(name.into()), ..Who::default() }
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
        use crate::protocol::{LockKind, Token};
        for label in ODD {
            let (token, kind, since) = (Token(7), LockKind::Shared, Duration::from_millis(1_500));
            let hold = HoldAccount { token, kind, users: 2, label: label.into(), since, left: TTL };
            let text = hold_record(TTL, &hold, Some(label));
            let read = read_hold_record(&text, TTL - Duration::from_secs(1)).unwrap();
            assert_eq!(read.value.as_deref(), Some(label));
            let without = read_hold_record(&hold_record(TTL, &hold, None), TTL).unwrap();
            assert_eq!((without.value, without.label.as_deref()), (None, Some(label)));
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
}
