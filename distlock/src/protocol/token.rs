//! Owner tokens: the value of a lock's key.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::{Kind, kind_of};

/// The owner token of one lease, or of one attempt to acquire it: a number, unique within the client. On the
/// wire it reads `dl1:<client>:<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u64);

/// The prefix of all our tokens and auxiliary names.
pub(crate) const MARK: &str = "dl1:";

/// The text of the token in the lock's key.
pub(crate) fn token_text(client: &str, token: Token) -> String {
    format!("{MARK}{client}:{}", token.0)
}

/// The same, to be shared. Made on the stack, because every acquisition needs one.
pub(crate) fn shared_token_text(client: &str, token: Token) -> Arc<str> {
    let mut text = ShortText { bytes: [0; ShortText::LONGEST], length: 0 };
    match write!(text, "{MARK}{client}:{}", token.0) {
        Ok(()) => String::from_utf8_lossy(&text.bytes[..text.length]).into(),
        Err(fmt::Error) => token_text(client, token).into(),
    }
}

/// Text on the stack. Writing fails if it would be too long.
struct ShortText {
    bytes: [u8; ShortText::LONGEST],
    length: usize,
}

impl ShortText {
    /// More than a token with a client's name and a random part has.
    const LONGEST: usize = 128;
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The number of a token of `client`; `None` if the token belongs to another client.
pub(crate) fn parse_token(client: &str, text: &str) -> Option<Token> {
    let number = text.strip_prefix(MARK)?.strip_prefix(client)?.strip_prefix(':')?;
    number.parse().ok().map(Token)
}

/// The client of a token; `None` if it is none of ours.
pub(crate) fn client_of(token: &str) -> Option<&str> {
    let (client, number) = token.strip_prefix(MARK)?.rsplit_once(':')?;
    // Neither what `min_hold` leaves behind nor the marker of a limited lock.
    let is_client = !client.is_empty() && !client.contains(':') && kind_of(token) == Kind::Exclusive;
    number.parse::<u64>().ok().map(|_| client).filter(|_| is_client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_client() {
        assert_eq!(client_of("dl1:checkout-7.2f45:12"), Some("checkout-7.2f45"));
        for other in ["dl1:hold", "dl1:hold:dl1:c:7", "dl1:s", "dl1:p:2", "somebody", "dl1::7", "dl1:c:"] {
            assert_eq!(client_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_shared_text_is_the_same_text_however_long() {
        for client in ["", "c", "Zürich-1", &"long".repeat(25), &"longer".repeat(25)] {
            for token in [0, 7, u64::MAX].map(Token) {
                assert_eq!(*shared_token_text(client, token), token_text(client, token));
                assert_eq!(parse_token(client, &shared_token_text(client, token)), Some(token));
            }
        }
    }
}
