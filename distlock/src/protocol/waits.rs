//! The requests of a holder that wait inside its section, as it publishes them next to its lock.
//!
//! They come after the text that a leader publishes, and after the number of the lease to which they belong. Anyone
//! with write access to the store can write such a text, so a reader takes a text that it does not understand for that
//! of a leader.

use std::fmt::Write as _;
use std::sync::Arc;

use distlock_store::LONGEST_VALUE;
use distlock_store::engine::Token;
use distlock_store::engine::fields::{Field, unescape};

use super::mutated;
use super::records::LONGEST_KEY;

/// Comes before the waits.
const MARK: char = '\u{1}';

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitRecord {
    /// Unique within the client.
    pub(crate) number: u64,
    /// Rises with each publication: the wait has lasted until then.
    pub(crate) beat: u64,
    /// By the wall clock of its process, in microseconds. Every reader compares the same numbers, so the clocks of the
    /// processes need not agree.
    pub(crate) began: u64,
    /// Whether its process ends it if it is the youngest of a deadlock.
    pub(crate) breaks: bool,
    /// The key for which it waits.
    pub(crate) key: Arc<str>,
}

/// What is published for a lease: the leader's text, and the waits that fit behind it. `None`: nothing.
pub(crate) fn with_waits(value: Option<&str>, token: Token, waits: &[WaitRecord]) -> Option<String> {
    if waits.is_empty() {
        return value.map(str::to_owned);
    }
    let has_value = if value.is_some() { 'v' } else { '-' };
    let mut text = format!("{}{MARK}{has_value} {}", value.unwrap_or_default(), token.0);
    for WaitRecord { number, beat, began, breaks, key } in waits {
        let before = text.len();
        // Writing to a string does not fail.
        let _written = write!(text, " {number} {beat} {began} {} {}", u8::from(*breaks), Field(key));
        if text.len() > LONGEST_VALUE {
            text.truncate(before);
        }
    }
    // The leader's text has no room for waits.
    Some(text).filter(|text| text.len() <= LONGEST_VALUE).or_else(|| value.map(str::to_owned))
}

/// The leader's text in a published text.
pub(crate) fn value_of(text: &str) -> Option<&str> {
    match text.rsplit_once(MARK) {
        Some((value, waits)) if waits.starts_with("v ") => Some(value),
        Some((_, waits)) if waits.starts_with("- ") => None,
        _ => Some(text),
    }
}

/// The waits in a published text, if they belong to this lease.
pub(crate) fn waits_of(text: &str, token: Token) -> Vec<WaitRecord> {
    let Some((_, waits)) = text.rsplit_once(MARK) else { return Vec::new() };
    let mut fields = waits.split(' ').skip(1);
    let is_of_the_lease = fields.next().and_then(|number| number.parse().ok()) == Some(token.0);
    if !is_of_the_lease && !mutated!(DeadlockRecordBelieved) {
        return Vec::new();
    }
    let mut found = Vec::new();
    while let Some(wait) = wait(&mut fields) {
        found.push(wait);
    }
    found
}

/// `None`: there is no more, or the text is garbled from here on.
fn wait<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<WaitRecord> {
    let mut number = || fields.next()?.parse().ok();
    let (number, beat, began, breaks) = (number()?, number()?, number()?, number()? == 1);
    let key = unescape(fields.next()?, LONGEST_KEY)?.into();
    Some(WaitRecord { number, beat, began, breaks, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [&str; 8] = ["order:42", "a b", "line\nend", "100%", "%", "\u{1}v 7", "\u{e4}\u{1f512}", "-"];

    fn waits_for(key: &str) -> WaitRecord {
        WaitRecord { number: 3, beat: 4, began: u64::MAX, breaks: true, key: key.into() }
    }

    #[test]
    fn waits_and_the_text_of_a_leader_are_read_as_they_were_written() {
        for value in ODD.map(Some).into_iter().chain([None, Some("")]) {
            for key in ODD {
                let waits = [waits_for(key), WaitRecord { number: 9, breaks: false, ..waits_for("b") }];
                let text = with_waits(value, Token(7), &waits).unwrap();
                assert_eq!(value_of(&text), value, "{text:?}");
                assert_eq!(waits_of(&text, Token(7)), waits, "{text:?}");
            }
        }
    }

    #[test]
    fn waits_of_an_earlier_lease_are_not_those_of_the_next_one() {
        let text = with_waits(None, Token(7), &[waits_for("a")]).unwrap();
        assert_eq!(waits_of(&text, Token(8)), []);
    }

    #[test]
    fn without_waits_only_the_text_of_the_leader_is_published() {
        assert_eq!(with_waits(Some("10.0.0.7"), Token(7), &[]).as_deref(), Some("10.0.0.7"));
        assert_eq!(with_waits(None, Token(7), &[]), None);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let long = "k".repeat(LONGEST_VALUE);
        let text = with_waits(None, Token(7), &[waits_for(&long), waits_for("a")]).unwrap();
        assert_eq!(waits_of(&text, Token(7)), [waits_for("a")]);
        let text = with_waits(Some(&long), Token(7), &[waits_for("a")]).unwrap();
        assert_eq!((value_of(&text), waits_of(&text, Token(7))), (Some(&*long), Vec::new()));
    }

    #[test]
    fn garbled_waits_are_none() {
        let garbled = "x\u{1}v 7 3 4 5 1";
        assert_eq!(waits_of(garbled, Token(7)), []);
        for text in ["", "x", "\u{1}", "\u{1}v", "\u{1}v 7", "\u{1}v x 3 4 5 1 a", "\u{1}v 7 3 4 5 1 %zz"] {
            assert_eq!(waits_of(text, Token(7)), [], "{text:?}");
        }
    }
}
