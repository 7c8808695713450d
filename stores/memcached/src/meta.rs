//! The commands of Memcached, and their replies.
//!
//! A server that is full and may not evict (`-M`) refuses a write. Before a refused `ms` does anything else, it removes
//! the item of its key, in every mode: the lock of another holder. A refused `add` or `cas` leaves the item as it is.
//! So items are written by these two. They do not report the version, so an `mg` follows each in the same message. Only
//! keys with spaces or control characters, which `add` cannot carry, are written by `ms`.

use std::time::Duration;

use distlock_store::engine::Time;

/// The prefix of distlock's keys. The data that a lock protects is often cached on the same server, under the same key.
const MARK: &str = "dl1:";
/// The longest key: with the prefix and in base64, it has 250 bytes.
pub(super) const LONGEST_KEY: usize = 250 / 4 * 3 - MARK.len();

/// What a server at its limit says to a new connection (`ERROR Too many open connections`), before it closes it.
pub(super) const TOO_MANY: &str = "Too many open connections";

/// The version of an item. It changes with every write, and restarts with the server. Zero: the server keeps none.
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
    /// Written. The item that was read directly afterwards.
    Stored(Option<Item>),
    /// Not created, because the item exists already. The item, if it was read, too.
    Exists(Option<Item>),
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

/// Whether the key can be written without base64 in commands that are not meta commands.
pub(super) fn is_plain(key: &str) -> bool {
    !key.bytes().any(|byte| byte == b' ' || byte.is_ascii_control())
}

/// Whether two replies follow: to the write, and to the look after it.
pub(super) fn has_two_replies(key: &str, command: Command<'_>) -> bool {
    is_plain(key) && matches!(command, Command::Add { .. } | Command::Replace { .. })
}

/// The bytes of a command for the item of `key`. The reply repeats the number.
pub(super) fn written(key: &str, command: Command<'_>, number: u32) -> Vec<u8> {
    let is_pair = has_two_replies(key, command);
    let (plain, (key, coding)) = (key, key_of(key));
    let look = || format!("mg {key} v c t O{number}{coding}\r\n");
    let text = match command {
        Command::Add { value, ttl: Ttl { seconds, .. } } if is_pair => {
            format!("add {MARK}{plain} 0 {seconds} {}\r\n{value}\r\n{}", value.len(), look())
        }
        Command::Replace { value, ttl: Ttl { seconds, .. }, cas } if is_pair => {
            format!("cas {MARK}{plain} 0 {seconds} {} {cas}\r\n{value}\r\n{}", value.len(), look())
        }
        Command::Add { value, ttl: Ttl { seconds, .. } } => {
            format!("ms {key} {} T{seconds} ME c O{number}{coding}\r\n{value}\r\n", value.len())
        }
        Command::Replace { value, ttl: Ttl { seconds, .. }, cas } => {
            format!("ms {key} {} T{seconds} C{cas} MS c O{number}{coding}\r\n{value}\r\n", value.len())
        }
        Command::Delete { cas } => format!("md {key} C{cas} O{number}{coding}\r\n"),
        Command::Get => look(),
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
        match self.code {
            "ERROR" if self.text.contains(TOO_MANY) => return Some(Response::Failed(self.text.to_owned())),
            "ERROR" | "CLIENT_ERROR" => return Some(Response::Refused(self.text.to_owned())),
            "SERVER_ERROR" => return Some(Response::Failed(self.text.to_owned())),
            _ => {}
        }
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
            "NS" | "NOT_STORED" => Some(Response::Exists(None)),
            "EX" | "EXISTS" => Some(Response::Changed),
            "NF" | "EN" | "NOT_FOUND" => Some(Response::Missing),
            "VA" => {
                let value = String::from_utf8_lossy(value).into_owned();
                Some(Response::Found(Item { value, cas: cas?, remaining }))
            }
            "STORED" => Some(Response::Stored(None)),
            "VERSION" | "MN" => Some(Response::Line(self.text.to_owned())),
            _ => None,
        }
    }
}

impl Response {
    /// The reply to this command, whichever protocol it was written in: if the item that was read after the write is
    /// the one that was written, the write is done.
    pub(super) fn to(self, command: Command<'_>) -> Self {
        match (self, command) {
            (
                Response::Stored(Some(Item { value: read, cas, .. })),
                Command::Add { value, .. } | Command::Replace { value, .. },
            ) if read == value => Response::Done(Some(cas)),
            (said, _) => said,
        }
    }

    /// The reply to a write, with the reply to the look that followed it. A full server allocates memory for an `add`
    /// before it looks at the key, so it also refuses the `add` of an item that exists.
    pub(super) fn then(self, looked: Response, is_add: bool) -> Self {
        let item = match looked {
            Response::Found(item) => Some(item),
            _ => None,
        };
        match self {
            Response::Stored(_) => Response::Stored(item),
            Response::Exists(_) => Response::Exists(item),
            Response::Failed(_) if is_add && item.is_some() => Response::Exists(item),
            said => said,
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
            ("NS O7", "", Some(Response::Exists(None))),
            ("NOT_STORED", "", Some(Response::Exists(None))),
            ("STORED", "", Some(Response::Stored(None))),
            ("EX O7", "", Some(Response::Changed)),
            ("EXISTS", "", Some(Response::Changed)),
            ("NF O7", "", Some(Response::Missing)),
            ("NOT_FOUND", "", Some(Response::Missing)),
            (
                "SERVER_ERROR object too large for cache",
                "",
                Some(Response::Failed("SERVER_ERROR object too large for cache".to_owned())),
            ),
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
            (
                "ERROR Too many open connections",
                "",
                Some(Response::Failed("ERROR Too many open connections".to_owned())),
            ),
            ("ERROR", "", Some(Response::Refused("ERROR".to_owned()))),
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
    fn a_write_never_removes_an_item_unless_its_key_needs_a_meta_command() {
        let ttl = Ttl { seconds: 5, until: Time(0) };
        let sent = |key, command| String::from_utf8(written(key, command, 7)).unwrap();
        let (add, replace) = (Command::Add { value: "o", ttl }, Command::Replace { value: "o", ttl, cas: 3 });
        assert_eq!(sent("k", add), "add dl1:k 0 5 1\r\no\r\nmg dl1:k v c t O7\r\n");
        assert_eq!(sent("k", replace), "cas dl1:k 0 5 1 3\r\no\r\nmg dl1:k v c t O7\r\n");
        assert!(sent("g\u{fc}nther", add).starts_with("add dl1:g\u{fc}nther 0"));
        assert_eq!(sent("a b", add), "ms ZGwxOmEgYg== 1 T5 ME c O7 b\r\no\r\n");
        for (key, command, pair) in [("k", add, true), ("a b", add, false), ("k", Command::Get, false)] {
            assert_eq!(has_two_replies(key, command), pair, "{key}");
        }
    }

    #[test]
    fn an_item_outlives_the_ttl_although_the_server_ends_it_up_to_two_seconds_early() {
        let ttl = |millis| Ttl::at_least(Duration::from_millis(millis), Time(0), Duration::ZERO).seconds;
        assert_eq!((ttl(1), ttl(1_000), ttl(1_001), ttl(30_000)), (3, 3, 4, 32));
    }

    #[test]
    fn an_add_that_a_full_server_refuses_reports_the_item_that_exists() {
        let failed = || Response::Failed("SERVER_ERROR out of memory storing object".to_owned());
        let item = Item { value: "dl1:a:1".to_owned(), cas: 5, remaining: None };
        let found = || Response::Found(item.clone());
        assert_eq!(failed().then(found(), true), Response::Exists(Some(item.clone())));
        assert_eq!(failed().then(Response::Missing, true), failed());
        assert_eq!(failed().then(found(), false), failed());
    }
}
