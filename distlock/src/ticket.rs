//! Tickets: how a lock that is handed over gets to the process that takes it over.

use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::LockError;
use crate::lock_key::LockKey;
use crate::protocol::{LockKind, kind_of, parse_owner};
use distlock_store::FencingToken;

/// The beginning of every ticket, with its version.
const MARK: &str = "dlt1";

/// A lock that was [handed over](crate::Guard::hand_over), as one line of text: print it, store it in a job, pass it on
/// in an environment variable. [`LockManager::take_over`](crate::LockManager::take_over) takes the lock over, in any
/// process that uses the same store.
///
/// Every process that has the ticket can take the lock, once. So treat it as you treat the job that it belongs to, and
/// write it to no log. It is not signed, and others can see the owner tokens in it
/// ([`inspect`](crate::LockManager::inspect)): read tickets only from clients that may take the lock. The text
/// consists of ASCII letters, digits and `,._:-%`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::Ticket;
///
/// let guard = manager.lock("order:42").acquire().await?;
/// let text = guard.hand_over().await?.to_string();
/// let ticket: Ticket = text.parse()?;
/// assert_eq!(ticket.key(), "order:42");
/// # Ok(())
/// # }
/// ```
#[doc(alias("restoreLock", "owner string", "transfer"))]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) prefix: Arc<str>,
    pub(crate) key: LockKey,
    /// The owner token of the one who handed the lock over.
    pub(crate) owner: Arc<str>,
    pub(crate) ttl: Duration,
    pub(crate) fence: Option<u64>,
}

impl Ticket {
    /// The key, without the manager's prefix.
    ///
    /// ```
    /// # fn doc(ticket: &distlock::Ticket) {
    /// println!("a ticket for {}", ticket.key());
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// The fencing token of the one who handed the lock over. That of the one who takes it over is larger.
    ///
    /// ```
    /// # fn doc(ticket: &distlock::Ticket) {
    /// println!("{:?}", ticket.fencing_token());
    /// # }
    /// ```
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fence.map(FencingToken::new)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ticket { prefix, key, owner, ttl, fence } = self;
        write!(
            f,
            "{MARK},{},{},",
            ttl.as_millis(),
            fence.map(|fence| fence.to_string()).unwrap_or_default()
        )?;
        escape(f, owner)?;
        f.write_char(',')?;
        escape(f, prefix)?;
        f.write_char(',')?;
        escape(f, key.as_str())
    }
}

/// The key only: a reader of the log cannot take the lock.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("key", &self.key).finish_non_exhaustive()
    }
}

impl FromStr for Ticket {
    type Err = LockError;

    /// # Errors
    /// [`LockError::InvalidTicket`] if the text is not that of a ticket.
    fn from_str(text: &str) -> Result<Ticket, LockError> {
        read(text).ok_or_else(|| {
            LockError::ticket(
                "this is not the text of a ticket, or not all of it: pass on the whole text that `hand_over` \
                 has returned",
            )
        })
    }
}

fn read(text: &str) -> Option<Ticket> {
    let fields: Vec<_> = text.split(',').collect();
    let [MARK, ttl, fence, owner, prefix, key] = fields[..] else { return None };
    let (owner, key): (Arc<str>, _) = (unescape(owner)?.into(), unescape(key)?);
    // The text of a lock that several hold reads like an owner.
    parse_owner(&owner).filter(|_| kind_of(&owner) == LockKind::Exclusive)?;
    Some(Ticket {
        prefix: unescape(prefix)?.into(),
        key: LockKey::new(&*key).ok()?,
        owner,
        ttl: Duration::from_millis(ttl.parse().ok()?),
        fence: if fence.is_empty() { None } else { Some(fence.parse().ok()?) },
    })
}

/// Everything but letters, digits and a few signs as `%` and two hexadecimal digits for each byte.
fn escape(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b':' | b'-' => {
                f.write_char(byte.into())?
            }
            _ => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(key: &str, fence: Option<u64>) -> Ticket {
        Ticket {
            prefix: "shop, %:".into(),
            key: LockKey::new(key).unwrap(),
            owner: "dl1:checkout-7.0a:42".into(),
            ttl: Duration::from_secs(10),
            fence,
        }
    }

    #[test]
    fn a_ticket_survives_its_text() {
        for key in ["order:42", "a b,c%\n", "\u{e4}\u{1f512}"] {
            for fence in [None, Some(7)] {
                let ticket = ticket(key, fence);
                let text = ticket.to_string();
                assert!(text.is_ascii() && !text.contains(char::is_whitespace), "{text}");
                assert_eq!(text.parse::<Ticket>().unwrap(), ticket, "{text}");
            }
        }
    }

    #[test]
    fn what_is_not_a_ticket_is_refused() {
        let text = ticket("order:42", Some(7)).to_string();
        for broken in [
            "",
            "dlt1",
            &text[1..],
            &text[..text.len() - "order:42".len()],
            &text.replace("dlt1", "dlt2"),
            &text.replace("10000", "ten"),
            &text.replace(",7,", ",-7,"),
            &text.replace("dl1:", "dl2:"),
            &text.replace("dl1:checkout-7.0a:42", "dl1:p:3"),
            &text.replace("%20", "%2"),
            &text.replace("%20", "%FF"),
            &text.replace("%20", "%\u{e4}"),
            &format!("{text},"),
        ] {
            let error = broken.parse::<Ticket>().unwrap_err();
            assert!(matches!(error, LockError::InvalidTicket { .. }), "{broken}: {error}");
        }
    }

    #[test]
    fn what_is_printed_for_debugging_is_no_ticket() {
        let shown = format!("{:?}", ticket("order:42", Some(7)));
        assert!(shown.contains("order:42") && !shown.contains("dl1:"), "{shown}");
    }
}
