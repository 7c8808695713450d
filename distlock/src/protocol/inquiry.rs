//! Questions of one client to another about its locks, and their answers, as text.
//!
//! Fields are separated by blanks. Letters and fields that are not known are ignored, so later versions may add some;
//! a version that does not know these messages ignores them as a whole.

use std::fmt::{self, Display, Write};
use std::str::Split;
use std::sync::Arc;
use std::time::Duration;

use distlock_store::engine::Who;
use distlock_store::engine::fields::{Field, Optional, cut, optional, unescape};

use super::account::{Account, HoldAccount, WaitAccount};
use super::pattern::{LONGEST_PATTERN, Pattern};
use super::{Kind, LIMITED_MARKER, SHARED_MARKER, Token, kind_of};

/// The longest fields, in bytes. What is longer is cut by the writer; a message in which it is longer is no message.
pub(crate) const LONGEST_CLIENT: usize = 128;
pub(crate) const LONGEST_KEY: usize = 1024;
const LONGEST_LABEL: usize = 128;
/// An owner token, or what another program has put in its place.
const LONGEST_OWNER: usize = 256;
/// With more bytes than this, an answer tells of no further lease, not even of the same key.
const MOST_LINES: usize = 64 << 10;
/// The longest message: so many bytes of lines, the last two of them with the longest fields, all escaped, and the
/// first two.
const LONGEST_MESSAGE: usize = 80 << 10;

/// `i <asker> <number> <room> k <key>`, or `i <asker> <number> <room> l <pattern> [<after>]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The client that asks; the answer goes to its channel.
    pub(crate) asker: String,
    pub(crate) number: u64,
    /// The most bytes that the answer may have.
    pub(crate) room: usize,
    pub(crate) about: About,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    Key(Arc<str>),
    /// All locks whose keys match, in the order of their keys, from behind `after` on.
    List {
        pattern: Pattern,
        after: Option<Arc<str>>,
    },
}

/// `a <client> <number> <m or e>`, then a line for the client and one for each hold and wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) client: String,
    pub(crate) number: u64,
    pub(crate) rest: Rest,
    pub(crate) who: Who,
    pub(crate) accounts: Vec<Account>,
}

/// Whether there was room for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    More,
    End,
}

/// A message of one client to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Question(Question),
    Answer(Answer),
}

impl Message {
    /// Whether a text may be one: the words that servers push begin otherwise.
    #[cfg(feature = "redis")]
    pub(crate) fn is_one(text: &str) -> bool {
        text.starts_with("i ") || text.starts_with("a ")
    }

    /// `None`: it is none, or one with a field that is too long. Nothing of it is kept then.
    pub(crate) fn read(text: &str) -> Option<Message> {
        if text.len() > LONGEST_MESSAGE {
            return None;
        }
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "i" => Question::read(rest).map(Message::Question),
            "a" => Answer::read(rest).map(Message::Answer),
            _ => None,
        }
    }
}

impl Question {
    fn read(rest: &str) -> Option<Question> {
        let mut fields = rest.split(' ');
        let asker = text(&mut fields, LONGEST_CLIENT)?;
        let number = fields.next()?.parse().ok()?;
        let room = fields.next()?.parse().ok()?;
        let about = match fields.next()? {
            "k" => About::Key(text(&mut fields, LONGEST_KEY)?.into()),
            "l" => {
                let pattern = Pattern::read(&text(&mut fields, LONGEST_PATTERN)?)?;
                let after = match fields.next() {
                    Some(after) => Some(unescape(after, LONGEST_KEY)?.into()),
                    None => None,
                };
                About::List { pattern, after }
            }
            _ => return None,
        };
        Some(Question { asker, number, room, about })
    }
}

impl Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i {} {} {} ", Field(&self.asker), self.number, self.room)?;
        match &self.about {
            About::Key(key) => write!(f, "k {}", Field(key)),
            About::List { pattern, after } => {
                write!(f, "l {}", Field(pattern.text()))?;
                after.as_ref().map_or(Ok(()), |after| write!(f, " {}", Field(after)))
            }
        }
    }
}

impl Answer {
    /// The first lines, without accounts.
    pub(crate) fn begin(client: &str, number: u64, who: &Who) -> AnswerText {
        // The mark is set at the end.
        let head = format!("a {} {number} ", Field(client));
        let lines = format!("\nc {}", Who::to_text(who));
        AnswerText { head, lines, tells: false }
    }

    fn read(rest: &str) -> Option<Answer> {
        let mut lines = rest.split('\n');
        let mut head = lines.next()?.split(' ');
        let (client, number) = (text(&mut head, LONGEST_CLIENT)?, head.next()?.parse().ok()?);
        let rest = if head.next()? == "m" { Rest::More } else { Rest::End };
        let mut answer = Answer { client, number, rest, who: Who::default(), accounts: Vec::new() };
        for line in lines {
            let mut fields = line.split(' ');
            match fields.next() {
                Some("c") => answer.who = Who::read(&mut fields)?,
                Some("h") => {
                    let (key, hold) = read_hold(&mut fields)?;
                    answer.account(key).holds.push(hold);
                }
                Some("w") => {
                    let (key, wait) = read_wait(&mut fields)?;
                    answer.account(key).wait = Some(wait);
                }
                _ => {}
            }
        }
        Some(answer)
    }

    /// The lines of one key follow each other.
    fn account(&mut self, key: String) -> &mut Account {
        if self.accounts.last().is_none_or(|account| *account.key != *key) {
            self.accounts.push(Account { key: key.into(), holds: Vec::new(), wait: None });
        }
        let last = self.accounts.len() - 1;
        &mut self.accounts[last]
    }
}

/// An answer that is being written.
#[derive(Debug)]
pub(crate) struct AnswerText {
    head: String,
    lines: String,
    /// Whether there is an account in it.
    tells: bool,
}

/// Whether an answer has room for one account more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Enough,
    Full,
}

impl AnswerText {
    /// Whether there is an account in it. An account without holds and waits is none.
    pub(crate) fn tells(&self) -> bool {
        self.tells
    }

    /// Adds an account if there is room for it. The first one always has room: a list goes on behind it.
    pub(crate) fn add(&mut self, account: &Account, room: usize) -> Room {
        let before = self.lines.len();
        let key = Field(&account.key);
        for HoldAccount { token, kind, users, label, since, left } in &account.holds {
            if self.lines.len() > MOST_LINES {
                break;
            }
            let (kind, since, left) = (KindWord(*kind), since.as_millis(), left.as_millis());
            let label = Field(cut(label, LONGEST_LABEL));
            let token = token.0;
            push(&mut self.lines, format_args!("\nh {key} {kind} {token} {users} {since} {left} {label}"));
        }
        if let Some(WaitAccount { token, kind, requests, label, since, behind }) = &account.wait {
            let token = token.map(|token| token.0.to_string());
            let (kind, since, label) = (KindWord(*kind), since.as_millis(), Field(cut(label, LONGEST_LABEL)));
            let behind = behind.as_deref().map(|behind| cut(behind, LONGEST_OWNER));
            let (token, behind) = (Optional(token.as_deref()), Optional(behind));
            push(
                &mut self.lines,
                format_args!("\nw {key} {kind} {token} {requests} {since} {behind} {label}"),
            );
        }
        if self.tells && self.head.len() + 1 + self.lines.len() > room {
            self.lines.truncate(before);
            return Room::Full;
        }
        self.tells |= self.lines.len() > before;
        Room::Enough
    }

    pub(crate) fn end(self, rest: Rest) -> String {
        let mark = match rest {
            Rest::More => 'm',
            Rest::End => 'e',
        };
        format!("{}{mark}{}", self.head, self.lines)
    }
}

fn push(to: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written: fmt::Result = to.write_fmt(text);
}

type Fields<'a> = Split<'a, char>;

fn read_hold(fields: &mut Fields<'_>) -> Option<(String, HoldAccount)> {
    let key = text(fields, LONGEST_KEY)?;
    let kind = kind(fields.next()?);
    let token = Token(fields.next()?.parse().ok()?);
    let users = fields.next()?.parse().ok()?;
    let (since, left) = (millis(fields)?, millis(fields)?);
    let label = text(fields, LONGEST_LABEL)?;
    Some((key, HoldAccount { token, kind, users, label, since, left }))
}

fn read_wait(fields: &mut Fields<'_>) -> Option<(String, WaitAccount)> {
    let key = text(fields, LONGEST_KEY)?;
    let kind = kind(fields.next()?);
    let token = optional(fields.next()?, LONGEST_OWNER)?.and_then(|token| token.parse().ok()).map(Token);
    let requests = fields.next()?.parse().ok()?;
    let since = millis(fields)?;
    let behind = optional(fields.next()?, LONGEST_OWNER)?.map(Arc::from);
    let label = text(fields, LONGEST_LABEL)?;
    Some((key, WaitAccount { token, kind, requests, label, since, behind }))
}

fn millis(fields: &mut Fields<'_>) -> Option<Duration> {
    fields.next()?.parse().ok().map(Duration::from_millis)
}

/// As the values of the lock's key say it; `dl1:x`: exclusive.
struct KindWord(Kind);

impl Display for KindWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Exclusive => f.write_str("dl1:x"),
            Kind::Shared => f.write_str(SHARED_MARKER),
            Kind::Limited(limit) => write!(f, "{LIMITED_MARKER}{limit}"),
        }
    }
}

fn kind(word: &str) -> Kind {
    kind_of(word)
}

fn text(fields: &mut Fields<'_>, longest: usize) -> Option<String> {
    unescape(fields.next()?, longest)
}

#[cfg(test)]
mod tests;
