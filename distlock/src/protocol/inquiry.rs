//! Questions of one client to another about its locks, and their answers, as text.
//!
//! Fields are separated by blanks. Letters and fields that are not known are ignored, so later versions may add some;
//! a version that does not know these messages ignores them as a whole.

use std::fmt::{self, Display, Write};
use std::str::Split;
use std::sync::Arc;
use std::time::Duration;

use super::account::{Account, HoldAccount, Met, WaitAccount, Who};
use super::pattern::Pattern;
use super::{Kind, LIMITED_MARKER, SHARED_MARKER, Token, kind_of};

/// A longer label is cut.
const LONGEST_LABEL: usize = 128;

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

    pub(crate) fn read(text: &str) -> Option<Message> {
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
        let asker = text(&mut fields)?;
        let number = fields.next()?.parse().ok()?;
        let room = fields.next()?.parse().ok()?;
        let about = match fields.next()? {
            "k" => About::Key(text(&mut fields)?.into()),
            "l" => {
                let pattern = Pattern::read(&text(&mut fields)?)?;
                About::List { pattern, after: text(&mut fields).map(Arc::from) }
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
        let lines = format!("\nc {}", who_text(who));
        AnswerText { head, lines, tells: false }
    }

    fn read(rest: &str) -> Option<Answer> {
        let mut lines = rest.split('\n');
        let mut head = lines.next()?.split(' ');
        let (client, number) = (text(&mut head)?, head.next()?.parse().ok()?);
        let rest = if head.next()? == "m" { Rest::More } else { Rest::End };
        let mut answer = Answer { client, number, rest, who: Who::default(), accounts: Vec::new() };
        for line in lines {
            let mut fields = line.split(' ');
            match fields.next() {
                Some("c") => answer.who = read_who(&mut fields)?,
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
            let (kind, since, left) = (KindWord(*kind), since.as_millis(), left.as_millis());
            let label = Field(cut(label));
            let token = token.0;
            push(&mut self.lines, format_args!("\nh {key} {kind} {token} {users} {since} {left} {label}"));
        }
        if let Some(WaitAccount { token, kind, requests, label, since, behind }) = &account.wait {
            let token = token.map(|token| token.0.to_string());
            let (kind, since, label) = (KindWord(*kind), since.as_millis(), Field(cut(label)));
            let (token, behind) = (Optional(token.as_deref()), Optional(behind.as_deref()));
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

/// A process, as fields.
pub(crate) fn who_text(who: &Who) -> String {
    let pid = who.pid.map(|pid| pid.to_string());
    let fields =
        [&who.host, &pid, &who.program, &who.version].map(|field| Optional(field.as_deref()).to_string());
    let mut text = fields.join(" ");
    if let Some(Met { busy, lost }) = who.met {
        push(&mut text, format_args!(" {busy} {lost}"));
    }
    text
}

/// The process that these fields tell of; `None`: of none.
#[cfg(feature = "etcd")]
pub(crate) fn read_who_text(text: &str) -> Option<Who> {
    let who = read_who(&mut text.split(' '))?;
    Some(who).filter(|who| who.host.is_some() || who.pid.is_some())
}

fn push(to: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written: fmt::Result = to.write_fmt(text);
}

fn cut(label: &str) -> &str {
    let end = label.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST_LABEL).last();
    if label.len() <= LONGEST_LABEL { label } else { &label[..end.unwrap_or(0)] }
}

type Fields<'a> = Split<'a, char>;

fn read_who(fields: &mut Fields<'_>) -> Option<Who> {
    let mut next = || fields.next().and_then(optional);
    let (host, pid, program, version) = (next(), next(), next(), next());
    let mut count = || fields.next().and_then(|count| count.parse().ok());
    let met = count().zip(count()).map(|(busy, lost)| Met { busy, lost });
    Some(Who { host, pid: pid.and_then(|pid| pid.parse().ok()), program, version, met })
}

fn read_hold(fields: &mut Fields<'_>) -> Option<(String, HoldAccount)> {
    let key = text(fields)?;
    let kind = kind(fields.next()?);
    let token = Token(fields.next()?.parse().ok()?);
    let users = fields.next()?.parse().ok()?;
    let (since, left) = (millis(fields)?, millis(fields)?);
    let label = text(fields)?;
    Some((key, HoldAccount { token, kind, users, label, since, left }))
}

fn read_wait(fields: &mut Fields<'_>) -> Option<(String, WaitAccount)> {
    let key = text(fields)?;
    let kind = kind(fields.next()?);
    let token = optional(fields.next()?).and_then(|token| token.parse().ok()).map(Token);
    let requests = fields.next()?.parse().ok()?;
    let since = millis(fields)?;
    let behind = optional(fields.next()?).map(Arc::from);
    let label = text(fields)?;
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

fn optional(field: &str) -> Option<String> {
    if field == "-" { None } else { unescape(field) }
}

fn text(fields: &mut Fields<'_>) -> Option<String> {
    unescape(fields.next()?)
}

fn unescape(field: &str) -> Option<String> {
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
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [&str; 8] = ["order:42", "a b", "line\nend", "100%", "%", "", "\u{e4}\u{1f512}", "-"];

    fn accounts() -> Vec<Account> {
        let label = String::from;
        let (since, left) = (Duration::from_millis(1_500), Duration::from_secs(28));
        let each = ODD.iter().enumerate().map(|(at, key)| {
            let hold = HoldAccount {
                token: Token(7),
                kind: [Kind::Exclusive, Kind::Shared, Kind::Limited(3)][at % 3],
                users: 2,
                label: label(ODD[(at + 1) % ODD.len()]),
                since,
                left,
            };
            let wait = WaitAccount {
                token: (at % 2 == 0).then_some(Token(9)),
                kind: Kind::Exclusive,
                requests: 12,
                label: label("nightly report"),
                since,
                behind: Some(ODD[(at + 2) % ODD.len()].into()),
            };
            Account {
                key: (*key).into(),
                holds: if at == 3 { Vec::new() } else { vec![hold.clone(), hold] },
                wait: (at != 5).then_some(wait),
            }
        });
        each.collect()
    }

    #[test]
    fn what_is_written_is_read_whatever_the_keys_contain() {
        let who = Who {
            host: Some("web 1".into()),
            pid: Some(4711),
            program: Some("-".into()),
            version: None,
            met: Some(Met { busy: 3, lost: 1 }),
        };
        let mut text = Answer::begin("checkout.0a", 5, &who);
        for account in accounts() {
            assert_eq!(text.add(&account, usize::MAX), Room::Enough);
        }
        let answer =
            Answer { client: "checkout.0a".into(), number: 5, rest: Rest::More, who, accounts: accounts() };
        assert_eq!(Message::read(&text.end(Rest::More)), Some(Message::Answer(answer)));
    }

    #[test]
    fn questions_are_read_as_they_were_written() {
        for key in ODD {
            let list = |after: Option<&str>| About::List {
                pattern: Pattern::read(key).unwrap(),
                after: after.map(Arc::from),
            };
            for about in [About::Key(key.into()), list(None), list(Some(key))] {
                let question = Question { asker: "a.1".into(), number: 3, room: 4096, about };
                assert_eq!(Message::read(&question.to_string()), Some(Message::Question(question)));
            }
        }
    }

    #[test]
    fn an_account_that_has_no_room_is_left_out() {
        let all = accounts();
        let mut text = Answer::begin("c", 1, &Who::default());
        let released = Account { holds: Vec::new(), wait: None, ..all[2].clone() };
        assert_eq!((text.add(&released, 10), text.tells()), (Room::Enough, false));
        assert_eq!(text.add(&all[0], 10), Room::Enough, "else there would be no end");
        assert_eq!((text.add(&all[1], 10), text.tells()), (Room::Full, true));
        let Some(Message::Answer(answer)) = Message::read(&text.end(Rest::End)) else { panic!("an answer") };
        assert_eq!((answer.accounts, answer.rest), (vec![all[0].clone()], Rest::End));
    }

    #[test]
    fn what_a_later_version_adds_is_ignored_and_what_is_garbled_is_nothing() {
        let text = "a c 1 e later\nc host 1 prog 0.1 later\nz later\nh k dl1:x 7 1 5 6 label later";
        let Some(Message::Answer(answer)) = Message::read(text) else { panic!("an answer") };
        assert_eq!(answer.accounts.len(), 1);
        assert!(Message::read("i a 1 100 k key later").is_some());
        for odd in [
            "",
            "i",
            "i a",
            "i a x 1 k k",
            "i a 1 1 z k",
            "i a 1 1 k %G1",
            "i a 1 1 k %C3",
            "a c 1",
            "q 1",
            "a c 1 e\nh k dl1:x x 1 5 6 l",
            "a c 1 e\nh k",
            "i a 1 1 k %\u{e4}",
        ] {
            assert_eq!(Message::read(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_long_label_is_cut_between_two_characters() {
        assert_eq!(cut("short"), "short");
        let long = "\u{e4}".repeat(LONGEST_LABEL);
        assert_eq!(cut(&long).len(), LONGEST_LABEL);
        assert_eq!(cut(&format!("x{long}")).len(), LONGEST_LABEL - 1);
    }
}
