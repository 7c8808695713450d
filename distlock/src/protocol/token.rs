//! Owner tokens: the value of a lock's key.

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

/// The number of a token of `client`; `None` if the token belongs to another client.
pub(crate) fn parse_token(client: &str, text: &str) -> Option<Token> {
    let number = text.strip_prefix(MARK)?.strip_prefix(client)?.strip_prefix(':')?;
    number.parse().ok().map(Token)
}
