//! Meta commands of Memcached, and their replies.

use std::time::Duration;

use distlock_store::engine::Time;

/// The prefix of distlock's keys. The data that a lock protects is often cached on the same server, under the same key.
const MARK: &str = "dl1:";
/// The longest key: with the prefix and in base64, it has 250 bytes.
pub(super) const LONGEST_KEY: usize = 250 / 4 * 3 - MARK.len();

/// The version of an item. It changes with every write, and restarts with the server.
pub(super) type Cas = u64;

/// A command for one item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command<'a> {
    /// Creates it.
    Add { value: &'a str, ttl: Ttl },
    /// Writes it if it has not changed.
    Replace { value: &'a str, ttl: Ttl, cas: Cas },
    /// Removes it if it has not changed.
    Delete { cas: Cas },
    /// Reads it.
    Get,
}

/// The maximum time by which an item expires too early, if the server's timer sets its clock in time.
pub(super) const TICK: Duration = Duration::from_secs(2);

/// How long an item lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ttl {
    /// The seconds for the server.
    seconds: u64,
    /// The item certainly lasts until then.
    pub(super) until: Time,
}

impl Ttl {
    /// The server counts whole seconds, and its clock is set once a second. So its clock is up to two seconds behind:
    /// up to one second because fractions are cut off, and up to one second until the next setting. (It is mostly one
    /// second. The two parts coincide until the timer has drifted past the end of a second, which the clock then never
    /// shows.)
    ///
    /// `behind` is how much more the clock may be behind.
    pub(super) fn at_least(time: Duration, now: Time, behind: Duration) -> Self {
        let counted = time + behind + TICK;
        Ttl { seconds: counted.as_secs() + u64::from(counted.subsec_nanos() > 0), until: now.after(time) }
    }

    #[cfg(test)]
    pub(super) fn seconds(self) -> u64 {
        self.seconds
    }
}

/// An item that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) value: String,
    pub(super) cas: Cas,
    /// `None`: it never ends.
    pub(super) remaining: Option<Duration>,
}

/// The reply of the server to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// Done. The version of the written item.
    Done(Option<Cas>),
    /// Not created, because the item exists already.
    Exists,
    /// The item has changed.
    Changed,
    /// There is no such item.
    Missing,
    Found(Item),
    /// The reply to a command that is not for an item.
    Line(String),
    /// The command was refused, and a retry would be, too.
    Refused(String),
    /// The server failed, and has done nothing.
    Failed(String),
}

/// The bytes of a command for the item of `key`. The reply repeats the number.
pub(super) fn written(key: &str, command: Command<'_>, number: u32) -> Vec<u8> {
    let (key, coding) = key_of(key);
    let text = match command {
        Command::Add { value, ttl: Ttl { seconds, .. } } => {
            format!("ms {key} {} T{seconds} ME c O{number}{coding}\r\n{value}\r\n", value.len())
        }
        Command::Replace { value, ttl: Ttl { seconds, .. }, cas } => {
            format!("ms {key} {} T{seconds} C{cas} MS c O{number}{coding}\r\n{value}\r\n", value.len())
        }
        Command::Delete { cas } => format!("md {key} C{cas} O{number}{coding}\r\n"),
        Command::Get => format!("mg {key} v c t O{number}{coding}\r\n"),
    };
    text.into_bytes()
}

/// A key in its written form, and the flag for this form.
fn key_of(key: &str) -> (String, &'static str) {
    let key = format!("{MARK}{key}");
    if key.bytes().all(|byte| byte.is_ascii_graphic()) { (key, "") } else { (base64(key.as_bytes()), " b") }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0, |word, at| word << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at)) as usize & 63];
            text.push(if at <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The first line of a reply.
pub(super) struct Line<'a> {
    /// The number of bytes of the value that follows.
    pub(super) value: Option<usize>,
    words: std::str::SplitAsciiWhitespace<'a>,
    code: &'a str,
    text: &'a str,
}

impl<'a> Line<'a> {
    /// Reads a line, without its end. `None`: it is not understood.
    pub(super) fn of(line: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let mut words = text.split_ascii_whitespace();
        let code = words.next()?;
        let value = if code == "VA" { Some(words.next()?.parse().ok()?) } else { None };
        Some(Line { value, words, code, text })
    }

    /// The reply, with its value, to the command with this number. `None`: it is not understood, or belongs to another
    /// command.
    pub(super) fn said(self, value: &[u8], number: u32) -> Option<Response> {
        let (mut cas, mut remaining) = (None, None);
        for word in self.words {
            let (flag, text) = word.split_at_checked(1)?;
            match flag {
                "O" if text.parse() != Ok(number) => return None,
                "c" => cas = Some(text.parse().ok()?),
                "t" => remaining = text.parse().ok().map(Duration::from_secs),
                _ => {}
            }
        }
        match self.code {
            "HD" => Some(Response::Done(cas)),
            "NS" => Some(Response::Exists),
            "EX" => Some(Response::Changed),
            "NF" | "EN" => Some(Response::Missing),
            "VA" => {
                let value = String::from_utf8_lossy(value).into_owned();
                Some(Response::Found(Item { value, cas: cas?, remaining }))
            }
            "ERROR" | "CLIENT_ERROR" => Some(Response::Refused(self.text.to_owned())),
            "SERVER_ERROR" => Some(Response::Failed(self.text.to_owned())),
            "VERSION" | "STORED" | "MN" => Some(Response::Line(self.text.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str, value: &str) -> Option<Response> {
        let line = Line::of(line.as_bytes())?;
        assert_eq!(line.value, (!value.is_empty()).then_some(value.len()));
        line.said(value.as_bytes(), 7)
    }

    #[test]
    fn answers_are_read_and_those_to_others_are_not() {
        let item = |remaining| Response::Found(Item { value: "dl1:a:1".to_owned(), cas: 5, remaining });
        for (line, value, expected) in [
            ("HD c5 O7", "", Some(Response::Done(Some(5)))),
            ("HD O7", "", Some(Response::Done(None))),
            ("HD c5 O8", "", None),
            ("HD cx O7", "", None),
            ("NS O7", "", Some(Response::Exists)),
            ("EX O7", "", Some(Response::Changed)),
            ("NF O7", "", Some(Response::Missing)),
            ("EN", "", Some(Response::Missing)),
            ("VA 7 c5 t9 O7", "dl1:a:1", Some(item(Some(Duration::from_secs(9))))),
            ("VA 7 c5 t-1 O7", "dl1:a:1", Some(item(None))),
            ("VA 7 O7", "dl1:a:1", None),
            (
                "SERVER_ERROR out of memory",
                "",
                Some(Response::Failed("SERVER_ERROR out of memory".to_owned())),
            ),
            ("CLIENT_ERROR bad", "", Some(Response::Refused("CLIENT_ERROR bad".to_owned()))),
            ("WHAT", "", None),
            ("", "", None),
        ] {
            assert_eq!(said(line, value), expected, "{line}");
        }
        assert!(Line::of(b"VA x O7").is_none() && Line::of(b"\xff").is_none());
    }

    #[test]
    fn keys_of_any_text_fit_into_a_line() {
        assert_eq!(key_of("order:42"), ("dl1:order:42".to_owned(), ""));
        assert_eq!(key_of("a b"), ("ZGwxOmEgYg==".to_owned(), " b"));
        assert_eq!(key_of("\r\n"), ("ZGwxOg0K".to_owned(), " b"));
        assert_eq!(base64(b"\xff\xfe"), "//4=");
        for key in ["x".repeat(LONGEST_KEY), "\u{1}".repeat(LONGEST_KEY)] {
            assert!(key_of(&key).0.len() <= 250);
        }
        let line = String::from_utf8(written("k", Command::Delete { cas: 3 }, 7)).unwrap();
        assert_eq!(line, "md dl1:k C3 O7\r\n");
    }

    #[test]
    fn an_item_outlives_the_ttl_although_the_server_ends_it_up_to_two_seconds_early() {
        let ttl = |millis| Ttl::at_least(Duration::from_millis(millis), Time(0), Duration::ZERO).seconds;
        assert_eq!((ttl(1), ttl(1_000), ttl(1_001), ttl(30_000)), (3, 3, 4, 32));
    }
}
