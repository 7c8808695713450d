//! The names of the keys in etcd.
//!
//! Every owner that holds a lock, or waits for it, has a place: a separate key below the key of the lock. The order of
//! the places is the order of their creation, that is, of their create revisions. The value of a place is its kind and
//! its owner. The first place holds the lock, and with it the readers after it up to the first writer, or as many as a
//! limit allows. So a hand-off needs no write: the next place holds the lock when the places before it are gone.

use std::fmt::Write;

use percent_encoding::percent_decode_str;

use distlock_store::engine::Who;

/// The value of a session's key: it names the process.
pub(super) fn session_value() -> String {
    Who::this_process().to_text()
}

/// The prefix of all keys of a program. Every key that is read or written contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    root: String,
}

/// The name of a place in the queue of a lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlaceName {
    pub(super) key: String,
    /// The last part. In earlier versions, it is the owner that created the place.
    pub(super) seat: String,
}

impl Names {
    /// `root` has no `/` at either end.
    pub(super) fn below(root: &str) -> Names {
        Names { root: format!("{root}/") }
    }

    /// The prefix of every key.
    pub(super) fn all(&self) -> &str {
        &self.root
    }

    /// The key that shows that a process is alive, and which connection it writes over.
    pub(super) fn session(&self, client: &str) -> String {
        format!("{}sessions/{client}", self.root)
    }

    /// The key for the text that the holder of a lock has published.
    pub(super) fn published(&self, key: &str) -> String {
        format!("{}values/{}", self.root, Encoded(key))
    }

    /// The prefix of the places of one lock. No other key has it.
    pub(super) fn places(&self, key: &str) -> String {
        format!("{}locks/{}/", self.root, Encoded(key))
    }

    /// The first and the last name for the places of all locks whose keys have this beginning, after the lock `after`.
    pub(super) fn locks(&self, beginning: &str, after: Option<&str>) -> (String, String) {
        let first = format!("{}locks/{}", self.root, Encoded(beginning));
        // The last byte of text in UTF-8 is never 0xFF.
        let end = format!("{first}\u{10ffff}");
        // The character after `/` is `0`.
        let behind = after.map(|after| format!("{}locks/{}0", self.root, Encoded(after)));
        (behind.map_or_else(|| first.clone(), |behind| behind.max(first.clone())), end)
    }

    /// The place at this seat.
    pub(super) fn place(&self, key: &str, seat: &str) -> String {
        format!("{}{seat}", self.places(key))
    }

    /// The place with this name. `None`: it is not a place.
    pub(super) fn read(&self, name: &[u8]) -> Option<PlaceName> {
        let name = std::str::from_utf8(name).ok()?.strip_prefix(&self.root)?;
        let (key, seat) = name.strip_prefix("locks/")?.split_once('/')?;
        let key = percent_decode_str(key).decode_utf8().ok()?.into_owned();
        Some(PlaceName { key, seat: seat.to_owned() })
    }
}

/// The key of a lock as one part of a path: no `/` of its own, and no control characters.
struct Encoded<'a>(&'a str);

impl std::fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            if c == '/' || c == '%' || c.is_control() {
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
    fn names_are_read_as_they_were_written() {
        let names = Names::below("app/locks");
        for key in ["order:42", "a/b", "a", "a/", "100%", "%2F", "zeile\n", "schlüssel", "", "a b", "\u{7f}"]
        {
            let place = names.place(key, "c.7");
            assert!(place.starts_with("app/locks/locks/") && place.starts_with(names.all()), "{place}");
            let (key, seat) = (key.to_owned(), "c.7".to_owned());
            assert_eq!(names.read(place.as_bytes()), Some(PlaceName { key, seat }), "{place}");
        }
        assert_eq!(names.read(names.session("c").as_bytes()), None);
    }

    #[test]
    fn the_places_of_one_lock_are_not_among_those_of_another() {
        let names = Names::below("r");
        assert_eq!(names.places("a/b"), "r/locks/a%2Fb/");
        for (one, other) in [("a", "a/b"), ("a", "ab"), ("a", "a%2Fb"), ("", "a")] {
            assert!(!names.place(other, "o").starts_with(&names.places(one)), "{one} {other}");
        }
    }

    #[test]
    fn what_we_have_not_written_is_nothing() {
        let names = Names::below("r");
        for name in ["r/locks/a", "r/else/a/b", "s/locks/a/b", "r/locks", "r/locks/%FF/o"] {
            assert_eq!(names.read(name.as_bytes()), None, "{name}");
        }
        assert_eq!(names.read(b"r/locks/\xff/o"), None);
    }
}
