//! Owner tokens: what stands in a lock's key.

/// Owner token of one lease or one attempt at it: a number, unique within the client. On the wire it reads
/// `dl1:<client>:<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) u64);

/// What every token and every auxiliary name of ours begins with.
pub(crate) const MARK: &str = "dl1:";

/// The token's text in the lock's key.
pub(crate) fn token_text(client: &str, token: Token) -> String {
    format!("{MARK}{client}:{}", token.0)
}

/// The number of a token of `client`, or nothing for somebody else's.
pub(crate) fn parse_token(client: &str, text: &str) -> Option<Token> {
    let number = text.strip_prefix(MARK)?.strip_prefix(client)?.strip_prefix(':')?;
    number.parse().ok().map(Token)
}
