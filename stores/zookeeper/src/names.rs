//! The names of the nodes in ZooKeeper.
//!
//! Every owner that holds a lock, or waits for it, has a place: an ephemeral sequential node below the node of the
//! lock. The server appends a number to each name, so the order of the places is the order of their creation (`queue`
//! decides which of them hold the lock). The name contains the owner and the session, so that a place whose creation
//! was not answered is found again, and is never mistaken for a place of an earlier session. After the session, the
//! name contains the kind, unless it is exclusive. A program that only knows exclusive places treats all places as
//! exclusive.

use std::fmt::{self, Write};

use distlock_store::LockKind;

/// The name of a kind in the name of a place.
const SHARED: &str = ".shared";
const LIMITED: &str = ".max";

/// The server numbers places in 32 bits. After the largest number, it continues with the smallest one.
const NUMBERS: i64 = 1 << 32;

/// The parent of all nodes of a program. It begins with `/` and does not end with `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    root: String,
}

/// The name of a place in the queue of a lock, without the path before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlaceName {
    name: String,
    /// The number that the server has appended.
    pub(super) number: i64,
    pub(super) kind: LockKind,
}

impl Names {
    /// `root` has no `/` at either end.
    pub(super) fn below(root: &str) -> Names {
        Names { root: format!("/{root}") }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The parent of the nodes of locks.
    pub(super) fn locks(&self) -> String {
        format!("{}/locks", self.root)
    }

    /// The parent of the nodes of sessions.
    pub(super) fn sessions(&self) -> String {
        format!("{}/sessions", self.root)
    }

    /// The node that each heartbeat of a session writes.
    pub(super) fn session(&self, client: &str, session: i64) -> String {
        format!("{}/sessions/{client}-{session:x}", self.root)
    }

    /// The key of the lock whose node has this name. `None`: not a name of distlock.
    pub(super) fn key(node: &str) -> Option<String> {
        if node == "%" {
            return Some(String::new());
        }
        let key = percent_encoding::percent_decode_str(node).decode_utf8().ok()?.into_owned();
        (Encoded(&key).to_string() == node).then_some(key)
    }

    /// The parent of the texts that holders publish.
    pub(super) fn texts(&self) -> String {
        format!("{}/texts", self.root)
    }

    /// The text that the holder of a lock publishes.
    pub(super) fn text(&self, key: &str) -> String {
        format!("{}/texts/{}", self.root, Encoded(key))
    }

    /// The node of a lock.
    pub(super) fn lock(&self, key: &str) -> String {
        format!("{}/locks/{}", self.root, Encoded(key))
    }
}

impl PlaceName {
    /// The beginning of the name of a place. The server appends a number.
    pub(super) fn prefix(owner: &str, session: i64, kind: LockKind) -> String {
        match kind {
            LockKind::Exclusive => format!("{owner}-{session:x}-"),
            LockKind::Shared => format!("{owner}-{session:x}{SHARED}-"),
            LockKind::Limited { max_holders } => format!("{owner}-{session:x}{LIMITED}{max_holders}-"),
        }
    }

    /// The name of the place that was created with this number.
    pub(super) fn of(prefix: &str, kind: LockKind, number: impl fmt::Display, value: i64) -> PlaceName {
        PlaceName { name: format!("{prefix}{number}"), number: value, kind }
    }

    /// The place by which another owner replaces this one.
    pub(super) fn taken_over(&self, owner: &str, session: i64) -> PlaceName {
        let number = split(&self.name).map_or("", |(_, number)| number);
        PlaceName::of(&PlaceName::prefix(owner, session, self.kind), self.kind, number, self.number)
    }

    /// `None`: not a name of distlock.
    pub(super) fn read(name: String) -> Option<PlaceName> {
        let (before, number) = split(&name)?;
        let number: i64 = number.parse().ok()?;
        let number = if number < 0 { number + NUMBERS } else { number };
        let (_, session) = before.rsplit_once('-')?;
        // An unknown kind excludes all others.
        let limit = session.split_once(LIMITED).and_then(|(_, limit)| limit.parse().ok());
        let kind = match limit.filter(|limit| *limit > 0) {
            Some(max_holders) => LockKind::Limited { max_holders },
            None if session.ends_with(SHARED) => LockKind::Shared,
            None => LockKind::Exclusive,
        };
        Some(PlaceName { name, number, kind })
    }

    /// The owner of the place.
    pub(super) fn owner(&self) -> &str {
        let without_number = split(&self.name).map_or("", |(before, _)| before);
        without_number.rsplit_once('-').map_or("", |(owner, _)| owner)
    }

    /// Whether it is the place of this owner and session, of any kind.
    pub(super) fn is_of(&self, owner: &str, session: i64) -> bool {
        let behind = self.name.strip_prefix(&format!("{owner}-{session:x}"));
        behind.is_some_and(|behind| behind.starts_with(['-', '.']))
    }

    /// The whole path, below the node of the lock.
    pub(super) fn path(&self, lock: &str) -> String {
        format!("{lock}/{}", self.name)
    }
}

/// The name of a place without its number, and the number.
fn split(name: &str) -> Option<(&str, &str)> {
    let (before, _) = name.rsplit_once('-')?;
    let before = before.strip_suffix('-').unwrap_or(before);
    Some((before, name.get(before.len() + 1..)?))
}

/// The key of a lock as one part of a path, with no character that ZooKeeper refuses.
struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_char('%');
        }
        // In a path, `.` and `..` have a meaning of their own.
        let is_step = self.0 == "." || self.0 == "..";
        for c in self.0.chars() {
            // A server uses UTF-16, and refuses surrogates and private characters.
            let is_refused = matches!(c, '/' | '%') || c.is_control() || c >= '\u{e000}';
            if is_refused || is_step {
                let mut utf8 = [0; 4];
                c.encode_utf8(&mut utf8).bytes().try_for_each(|byte| write!(f, "%{byte:02X}"))?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_its_owner_its_session_and_its_kind() {
        let (owner, session) = ("dl1:check-out-7.0a:42", -0x1234);
        for (kind, named) in [
            (LockKind::Exclusive, ""),
            (LockKind::Shared, ".shared"),
            (LockKind::Limited { max_holders: 3 }, ".max3"),
            (LockKind::Limited { max_holders: u32::MAX }, ".max4294967295"),
        ] {
            let place = PlaceName::of(&PlaceName::prefix(owner, session, kind), kind, "0000000007", 7);
            assert_eq!(place.name, format!("{owner}-{session:x}{named}-0000000007"));
            assert_eq!(place.owner(), owner);
            assert_eq!(PlaceName::read(place.name.clone()), Some(place.clone()));
            assert!(place.is_of(owner, session), "{place:?}");
            for (other, session) in
                [(&owner[..owner.len() - 1], session), (owner, 0x1234), (owner, session >> 4)]
            {
                assert!(!place.is_of(other, session), "{place:?}");
            }
            let next = place.taken_over("next", 0x5);
            assert_eq!((next.name.as_str(), next.number), (&*format!("next-5{named}-0000000007"), 7));
            assert_eq!(PlaceName::read(next.name.clone()), Some(next));
            assert_eq!(place.path("/r/locks/k"), format!("/r/locks/k/{}", place.name));
        }
    }

    #[test]
    fn a_kind_that_is_not_known_excludes_all() {
        for session in ["1f", "1f.max", "1f.max0", "1f.max-1", "1f.max4294967296", "1f.else"] {
            let place = PlaceName::read(format!("o-{session}-0000000001")).unwrap();
            assert_eq!((place.kind, place.number), (LockKind::Exclusive, 1), "{session}");
        }
    }

    /// The server counts in 32 bits, with a sign.
    #[test]
    fn a_number_below_zero_is_younger_than_all_others() {
        let place = |number| PlaceName::read(format!("o-1f.shared-{number}")).unwrap();
        let (last, next, after) = (place("2147483647"), place("-2147483648"), place("-2147483647"));
        assert!(last.number < next.number && next.number < after.number, "{next:?} {after:?}");
        assert_eq!((next.owner(), next.kind), ("o", LockKind::Shared));
        let name = PlaceName::read(next.taken_over("p", 0x2).name).unwrap();
        assert_eq!((name.owner(), name.number), ("p", next.number));
    }

    #[test]
    fn what_we_have_not_created_is_no_place() {
        for name in ["", "x", "lock-0000000001", "_c_ab-lock-", "owner-1f-x"] {
            assert_eq!(PlaceName::read(name.to_owned()), None, "{name}");
        }
    }

    #[test]
    fn what_others_have_created_is_no_lock() {
        for node in ["%zz", "%61", "a%2fb", "100%25%", "%FF"] {
            assert_eq!(Names::key(node), None, "{node}");
        }
    }

    #[test]
    fn keys_are_told_apart_and_taken_by_the_server() {
        let names = Names::below("app/locks");
        assert_eq!(names.lock("order:42"), "/app/locks/locks/order:42");
        let keys = [
            "",
            ".",
            "..",
            "...",
            "a/b",
            "a",
            "%",
            "%25",
            "100%",
            "zeile\n",
            "schlüssel",
            "a b",
            "\u{7f}",
            "\u{1f512}",
            "\u{e000}",
            "\u{fffd}",
            "a%2Fb",
        ];
        let mut seen = std::collections::HashSet::new();
        for key in keys {
            let lock = names.lock(key);
            let part = lock.strip_prefix("/app/locks/locks/").unwrap();
            assert!(!part.is_empty() && part != "." && part != "..", "{key:?}");
            assert!(part.chars().all(|c| c != '/' && !c.is_control() && c < '\u{e000}'), "{key:?}: {part}");
            assert_eq!(Names::key(part).as_deref(), Some(key));
            assert!(seen.insert(lock.clone()), "{key:?}");
        }
    }
}
