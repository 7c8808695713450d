//! Words of a line.

use std::str::{FromStr, SplitAsciiWhitespace};
use std::time::Duration;

use distlock::LockKind;

/// A key may be any text; a word may not.
pub(crate) fn hex(key: &str) -> String {
    key.bytes().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(word: &str) -> Option<String> {
    let digits = |at| u8::from_str_radix(word.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..word.len()).step_by(2).map(digits).collect();
    String::from_utf8(bytes?).ok()
}

pub(crate) fn millis(d: Duration) -> u128 {
    d.as_millis()
}

/// `x`, `s`, or the limit.
pub(crate) fn kind_word(kind: LockKind) -> String {
    match kind {
        LockKind::Shared => "s".to_owned(),
        LockKind::Limited { max_holders } => max_holders.to_string(),
        _ => "x".to_owned(),
    }
}

/// The words of a line, one after the other.
pub(crate) struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    pub(crate) fn of(line: &'a str) -> Self {
        Words(line.split_ascii_whitespace())
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    pub(crate) fn number<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    pub(crate) fn span(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_millis)
    }

    pub(crate) fn kind(&mut self) -> Option<LockKind> {
        Some(match self.text()? {
            "x" => LockKind::Exclusive,
            "s" => LockKind::Shared,
            limit => LockKind::Limited { max_holders: limit.parse().ok()? },
        })
    }
}
