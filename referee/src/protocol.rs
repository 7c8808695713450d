//! The lines between the referee and an adapter.
//!
//! | the referee writes | the adapter answers |
//! |---|---|
//! | | `hello NAME VERSION tokens=yes\|no waits=yes\|no renews=yes\|no`, once, when it is ready |
//! | `acquire ID KEY TTL_MS WAIT_MS` | `ID ok [TOKEN]`, `ID busy` or `ID error TEXT` |
//! | `release ID` | `ID released`, `ID lost` or `ID error TEXT` |
//! | | `ID lost`, without a request, when the holder finds out that it lost the lock |

/// The first line of an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The library.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether a grant contains a fencing token.
    pub tokens: bool,
    /// Whether a request waits until the lock is free. Otherwise the answer is `busy` immediately.
    pub waits: bool,
    /// Whether a lock is renewed while it is held.
    pub renews: bool,
}

/// The answer of an adapter to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The lock is held, under this fencing token.
    Granted(Option<u64>),
    /// The lock was not free within the wait limit.
    Busy,
    /// The lock was released.
    Released,
    /// The lock was lost before it was released.
    Lost,
    /// The request failed.
    Failed(String),
}

/// Reads the first line.
#[must_use]
pub fn parse_hello(line: &str) -> Option<Hello> {
    let mut words = line.split_whitespace();
    if words.next() != Some("hello") {
        return None;
    }
    let (name, version) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut ability = |name: &str| match words.next()?.split_once('=')? {
        (found, "yes") if found == name => Some(true),
        (found, "no") if found == name => Some(false),
        _ => None,
    };
    Some(Hello {
        name,
        version,
        tokens: ability("tokens")?,
        waits: ability("waits")?,
        renews: ability("renews")?,
    })
}

/// Reads any later line: the number of the request, and the answer.
#[must_use]
pub fn parse_answer(line: &str) -> Option<(u64, Answer)> {
    let (id, rest) = line.trim_end().split_once(' ')?;
    let (word, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let answer = match (word, text) {
        ("ok", "") => Answer::Granted(None),
        ("ok", token) => Answer::Granted(Some(token.parse().ok()?)),
        ("busy", _) => Answer::Busy,
        ("released", _) => Answer::Released,
        ("lost", _) => Answer::Lost,
        ("error", text) => Answer::Failed(text.to_owned()),
        _ => return None,
    };
    Some((id.parse().ok()?, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_names_the_library_and_its_abilities() {
        let hello = parse_hello("hello redlock 5.0 tokens=no waits=yes renews=no").unwrap();
        assert_eq!((hello.name.as_str(), hello.version.as_str()), ("redlock", "5.0"));
        assert_eq!((hello.tokens, hello.waits, hello.renews), (false, true, false));
        for broken in
            ["", "7 ok", "hello a", "hello a 1 tokens=yes waits=maybe renews=no", "hello a 1 tokens=yes"]
        {
            assert_eq!(parse_hello(broken), None, "{broken}");
        }
    }

    #[test]
    fn an_answer_names_its_request() {
        let failed = Answer::Failed("no route".to_owned());
        for (line, answer) in [
            ("7 ok", Answer::Granted(None)),
            ("7 ok 12", Answer::Granted(Some(12))),
            ("7 busy", Answer::Busy),
            ("7 released", Answer::Released),
            ("7 lost", Answer::Lost),
            ("7 error no route", failed),
        ] {
            assert_eq!(parse_answer(line), Some((7, answer)), "{line}");
        }
        for broken in ["", "ok", "7", "x ok", "7 ok twelve", "7 fine"] {
            assert_eq!(parse_answer(broken), None, "{broken}");
        }
    }
}
