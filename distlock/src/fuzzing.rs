//! Entry points for the fuzz targets (`fuzz/`): those of the Redis store, and what other processes have written:
//! tickets, and locks as any store shows them.
//!
//! No input may cause a panic. The other requirements are asserted.

use std::time::Duration;

pub use crate::backend::redis::fuzzing::*;
use crate::manager::LockInfo;
use crate::protocol::kind_of;
use crate::ticket::Ticket;
use distlock_store::{Escaped, LONGEST_VALUE, StoredLock};

/// The text of a ticket.
pub fn ticket(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(ticket) = text.parse::<Ticket>() else { return };
    let again = ticket.to_string();
    assert!(again.is_ascii() && !again.contains(char::is_whitespace), "{again}");
    assert_eq!(again.parse::<Ticket>().ok().as_ref(), Some(&ticket), "{again}");
}

/// A lock, one part of it in each line: the text that stands for its kind, `=` and a holder, `+` and a waiter, and
/// `:` and what is published.
pub fn lock(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (kind, parts) = text.split_once('\n').unwrap_or((text, ""));
    let mut found = StoredLock::new(kind_of(kind));
    for part in parts.lines() {
        let left = u64::try_from(part.len()).ok().map(Duration::from_secs);
        found = match (part.split_at_checked(1), found.holders.last().cloned()) {
            (Some(("=", holder)), _) => found.holder(holder, left),
            (Some(("+", waiter)), _) => found.waiter(waiter),
            (Some((":", value)), Some((holder, _))) => found.published(&holder, value),
            _ => found,
        };
    }
    let found = found.longest_first();
    let info = LockInfo::of("k", "p:", &found, None);
    assert!(info.waiters >= u64::try_from(info.waiting.len()).unwrap_or(u64::MAX));
    for holder in &info.holders {
        assert!(holder.value.as_ref().is_none_or(|value| value.len() <= LONGEST_VALUE), "a value too long");
        assert!(!Escaped(&holder.token).to_string().contains(char::is_control));
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::redis::fuzzing::read_seeds::all_pass;

    #[test]
    fn seeds_of_stores_pass() {
        all_pass(b"t", super::ticket);
        all_pass(b"l", super::lock);
        all_pass(b"r", super::records);
    }
}
