//! The text form of locks.

use std::time::Duration;

use distlock::{Escaped, LockClient, LockEntry, LockHolder, LockInfo, LockKind, LockWaiter};

/// The holders and waiters of a lock, from any source.
#[derive(Clone, Debug)]
pub(crate) struct Parties<'a> {
    pub(crate) key: &'a str,
    pub(crate) full_key: &'a str,
    pub(crate) kind: LockKind,
    pub(crate) holders: &'a [LockHolder],
    pub(crate) waiting: &'a [LockWaiter],
    /// The number of waiting processes. It may be larger than the number of named ones, if the user may not read the
    /// queue.
    pub(crate) waiters: u64,
}

impl<'a> From<&'a LockInfo> for Parties<'a> {
    fn from(info: &'a LockInfo) -> Self {
        let LockInfo { key, full_key, holders, waiting, .. } = info;
        let named = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
        Parties { key, full_key, kind: info.kind, holders, waiting, waiters: info.waiters.max(named) }
    }
}

impl<'a> From<&'a LockEntry> for Parties<'a> {
    fn from(entry: &'a LockEntry) -> Self {
        let LockEntry { key, full_key, holders, waiting, .. } = entry;
        Parties { key, full_key, kind: entry.kind, holders, waiting, waiters: entry.waiters }
    }
}

impl Parties<'_> {
    /// The clients whose process is known.
    pub(crate) fn clients(&self) -> impl Iterator<Item = &LockClient> {
        let holders = self.holders.iter().filter_map(|holder| holder.client.as_ref());
        holders.chain(self.waiting.iter().filter_map(|waiter| waiter.client.as_ref()))
    }

    /// How long the lock has been held.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.holders.iter().filter_map(|holder| holder.since).max()
    }

    /// The remaining time of the longest lease.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.holders.iter().filter_map(|holder| holder.remaining).max()
    }

    /// The first holder, and the number of the others.
    pub(crate) fn owner(&self) -> String {
        match self.holders {
            [] => "-".to_owned(),
            [one] => holder(one),
            [first, others @ ..] => format!("{} +{}", holder(first), others.len()),
        }
    }
}

/// The client in an owner token of this library: `dl1:<client>:<number>`.
pub(crate) fn client(token: &str) -> &str {
    let of_ours = token.strip_prefix("dl1:").and_then(|rest| rest.rsplit_once(':'));
    of_ours.map_or(token, |(client, _)| client)
}

/// The names of these owners' clients.
pub(crate) fn clients(owners: &[String]) -> String {
    owners.iter().map(|owner| shown(client(owner))).collect::<Vec<_>>().join(", ")
}

pub(crate) fn kind(kind: LockKind) -> String {
    match kind {
        LockKind::Exclusive => "exclusive".to_owned(),
        LockKind::Shared => "shared".to_owned(),
        LockKind::Limited { max_holders } => format!("limited to {max_holders}"),
    }
}

/// A process in one text: `host:pid program`.
pub(crate) fn process(client: &LockClient) -> Option<String> {
    let host = client.host.as_deref()?;
    let pid = client.pid.map_or_else(String::new, |pid| format!(":{pid}"));
    let program = client.program.as_deref().map_or_else(String::new, |program| format!(" {program}"));
    Some(shown(&format!("{host}{pid}{program}")))
}

/// A holder in one line: its process, or its client, or its token, and its label.
pub(crate) fn holder(holder: &LockHolder) -> String {
    one_of(holder.client.as_ref(), Some(&holder.token), holder.label.as_deref())
}

/// A waiter in one line, in the form of a holder.
pub(crate) fn waiter(waiter: &LockWaiter) -> String {
    one_of(waiter.client.as_ref(), waiter.token.as_deref(), waiter.label.as_deref())
}

fn one_of(client: Option<&LockClient>, token: Option<&str>, label: Option<&str>) -> String {
    let who = client.map(|client| process(client).unwrap_or_else(|| shown(&client.id)));
    let who = who.or_else(|| token.map(shown)).unwrap_or_else(|| "?".to_owned());
    // All requests without a label have this one.
    match label.filter(|label| *label != "lock") {
        Some(label) => format!("{who} ({})", shown(label)),
        None => who,
    }
}

/// A time with two or three digits: `350ms`, `12.3s`, `4m05s`, `3h07m`, `2d04h`.
pub(crate) fn time(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A time, or a dash if it is unknown.
pub(crate) fn time_or_dash(known: Option<Duration>) -> String {
    known.map_or_else(|| "-".to_owned(), time)
}

/// Foreign text, without characters that act on a terminal.
pub(crate) fn shown(text: &str) -> String {
    Escaped(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_move_the_cursor_or_turn_the_text() {
        assert_eq!(shown("a\u{1b}[2Jb\u{e4}"), "a\\u{1b}[2Jb\u{e4}");
        assert_eq!(shown("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn a_token_names_its_client_and_another_one_is_shown_whole() {
        assert_eq!(client("dl1:checkout-7.2f45:12"), "checkout-7.2f45");
        assert_eq!(client("another owner's"), "another owner's");
    }

    #[test]
    fn times_are_short() {
        let shown = |millis| time(Duration::from_millis(millis));
        assert_eq!((&*shown(350), &*shown(12_340), &*shown(245_000)), ("350ms", "12.3s", "4m05s"));
        assert_eq!((&*shown(11_220_000), &*shown(187_200_000)), ("3h07m", "2d04h"));
    }
}
