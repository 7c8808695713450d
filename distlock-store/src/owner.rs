//! Owner tokens: the value of a lock's key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The owner token of one lease, or of one attempt to acquire it: a number, unique within the client, and for how
/// long the lease may stay with its process after a section.
///
/// On the wire it reads `dl1:<client>:<number>`; if the lease may stay, `dl1:<client>:0<number><ms, five digits>`. So
/// another process that finds the lock held knows that its holder releases it on request, and the latest time for it.
/// For processes that do not know this form, it is just a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

impl Token {
    /// The lower bits are the number, the upper ones milliseconds.
    const NUMBER_BITS: u32 = 50;
    const NUMBERS: u64 = 1 << Token::NUMBER_BITS;
    /// Digits of the milliseconds in the text.
    const DIGITS: usize = 5;

    /// The number after this one, with this many numbers of other sources in between.
    pub fn number_after(number: u64, stride: u64) -> u64 {
        number.wrapping_add(stride) % Token::NUMBERS
    }

    /// The same number, for a lease that may stay for `linger` after a section: whole milliseconds, at most 16 s.
    #[must_use]
    pub fn lingering(self, linger: Duration) -> Token {
        let longest = u64::MAX >> Token::NUMBER_BITS;
        let millis = u64::try_from(linger.as_millis()).unwrap_or(longest).min(longest);
        Token(self.number() | (millis << Token::NUMBER_BITS))
    }

    /// For how long the lease may stay with its process after a section.
    pub fn linger(self) -> Option<Duration> {
        let millis = self.0 >> Token::NUMBER_BITS;
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    pub fn number(self) -> u64 {
        self.0 % Token::NUMBERS
    }

    /// Reads the text after the client.
    fn parse(text: &str) -> Option<Token> {
        let plain = |number: &str| number.parse().ok().filter(|number| *number < Token::NUMBERS).map(Token);
        let Some(marked) = text.strip_prefix('0').filter(|rest| rest.len() > Token::DIGITS) else {
            return plain(text);
        };
        let (number, millis) = marked.split_at_checked(marked.len() - Token::DIGITS)?;
        let linger = Duration::from_millis(millis.parse().ok().filter(|millis| *millis > 0)?);
        Some(plain(number)?.lingering(linger))
    }
}

/// The text after the client.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> Token::NUMBER_BITS {
            0 => write!(f, "{}", self.number()),
            millis => write!(f, "0{}{millis:0digits$}", self.number(), digits = Token::DIGITS),
        }
    }
}

/// The first part of the value of a limited lock's key. The limit follows.
pub const LIMITED_MARKER: &str = "dl1:p:";

/// The prefix of all our tokens and auxiliary names.
pub const MARK: &str = "dl1:";

/// The text of the token in the lock's key.
pub fn token_text(client: &str, token: Token) -> String {
    format!("{MARK}{client}:{token}")
}

/// Reads the same text. It is on the stack and not formatted, because every acquisition and every command needs one.
pub fn with_token_text<R>(client: &str, token: Token, read: impl FnOnce(&str) -> R) -> R {
    let plain = token.linger().is_none().then(|| ShortText::of_token(client, token)).flatten();
    match plain.as_ref().and_then(ShortText::as_str) {
        Some(text) => read(text),
        None => read(&token_text(client, token)),
    }
}

/// The same, to be shared.
pub fn shared_token_text(client: &str, token: Token) -> Arc<str> {
    with_token_text(client, token, |text| text.into())
}

/// Text on the stack.
struct ShortText {
    bytes: [u8; ShortText::LONGEST],
    length: usize,
}

impl ShortText {
    /// More than a token with a client's name and a random part has.
    const LONGEST: usize = 128;
    /// Digits of the largest number.
    const DIGITS: usize = 20;

    /// `None`: it would be too long.
    fn of_token(client: &str, token: Token) -> Option<ShortText> {
        let mut text = ShortText { bytes: [0; ShortText::LONGEST], length: 0 };
        text.push(MARK.as_bytes())?;
        text.push(client.as_bytes())?;
        text.push(b":")?;
        let (mut digits, mut first, mut rest) =
            ([b'0'; ShortText::DIGITS], ShortText::DIGITS, token.number());
        for digit in digits.iter_mut().rev() {
            *digit += u8::try_from(rest % 10).unwrap_or(0);
            (first, rest) = (first - 1, rest / 10);
            if rest == 0 {
                break;
            }
        }
        text.push(digits.get(first..)?)?;
        Some(text)
    }

    /// `None`: it would be too long.
    fn push(&mut self, part: &[u8]) -> Option<()> {
        let end = self.length + part.len();
        self.bytes.get_mut(self.length..end)?.copy_from_slice(part);
        self.length = end;
        Some(())
    }

    fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.length)?).ok()
    }
}

/// The token of `client` that the text names; `None` if it belongs to another client.
pub fn parse_token(client: &str, text: &str) -> Option<Token> {
    Token::parse(text.strip_prefix(MARK)?.strip_prefix(client)?.strip_prefix(':')?)
}

/// The client and the token that the text names.
pub fn parse_owner(text: &str) -> Option<(&str, Token)> {
    let (client, token) = text.strip_prefix(MARK)?.rsplit_once(':')?;
    Some((client, Token::parse(token)?))
}

/// The client of a token; `None` if the token was not created by this library.
pub fn client_of(token: &str) -> Option<&str> {
    let (client, number) = token.strip_prefix(MARK)?.rsplit_once(':')?;
    // Neither what `min_hold` leaves behind nor the marker of a limited lock.
    let is_client = !client.is_empty() && !client.contains(':') && !token.starts_with(LIMITED_MARKER);
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
            for token in [0, 7, 10, Token::NUMBERS - 1, u64::MAX].map(Token) {
                assert_eq!(*shared_token_text(client, token), token_text(client, token));
                assert_eq!(parse_token(client, &shared_token_text(client, token)), Some(token));
            }
        }
    }

    #[test]
    fn a_token_says_for_how_long_its_lease_may_stay() {
        let plain = Token(7);
        let marked = plain.lingering(Duration::from_millis(50));
        assert_eq!((plain.linger(), marked.linger()), (None, Some(Duration::from_millis(50))));
        assert_eq!((marked.number(), token_text("c", marked)), (7, "dl1:c:0700050".to_owned()));
        assert_eq!(parse_token("c", "dl1:c:0700050"), Some(marked));
        assert_eq!(parse_owner("dl1:a:b:0700050"), Some(("a:b", marked)));
        let longest = plain.lingering(Duration::MAX);
        assert_eq!(parse_token("c", &token_text("c", longest)), Some(longest));
        for odd in ["dl1:c:0700000", "dl1:c:07x0050", "dl1:c:9007199254740993", "dl1:c:", "dl1:c:0\u{e4}0050"]
        {
            assert_eq!(parse_token("c", odd), None, "{odd}");
        }
    }
}
