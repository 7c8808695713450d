//! The names of distlock's keys and channels on the server.
//!
//! In a cluster, all data of a lock must be in the lock's slot, and the user chooses the lock's name. So the other
//! names contain a short hash tag for the same slot (see [`tag_of`]), whatever braces the key contains. A prefix that
//! contains a hash tag puts all data into one slot anyway.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use redis::{Cmd, RedisWrite};

use super::slots::{hash_tag, slot_of, tag_of};

/// The part before a client's name in the name of its record.
const PROCESS: &str = "dl1:i:";

/// The names of everything that belongs to one deployment. Clients that share locks share the prefix.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
    pub(super) clustered: bool,
    /// The slot of all keys, if the prefix decides it.
    slot: Option<u16>,
}

/// The number in the hash tag of the lock's other names, if they need one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(Option<u32>);

impl Tag {
    /// Outside a cluster.
    pub(super) fn none() -> Tag {
        Tag(None)
    }

    pub(super) fn of_slot(slot: u16) -> Tag {
        Tag(Some(tag_of(slot)))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |tag| write!(f, "{{{tag}}}"))
    }
}

/// A name that is written straight into a command, without being built first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    prefix: &'a str,
    part: &'static str,
    tag: Tag,
    key: &'a str,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)?;
        f.write_str(self.part)?;
        self.tag.fmt(f)?;
        f.write_str(self.key)
    }
}

impl Name<'_> {
    /// Adds it to a command. Without a tag, it is not formatted, which takes several times as many instructions.
    pub(super) fn add_to(&self, cmd: &mut Cmd) {
        if self.tag != Tag::none() {
            return cmd.write_arg_fmt(self);
        }
        let mut arg = cmd.writer_for_next_arg();
        for part in [self.prefix, self.part, self.key] {
            // The command is in memory, so this does not fail.
            arg.write_all(part.as_bytes()).ok();
        }
    }

    /// Its length, or a little more.
    pub(super) fn len(&self) -> usize {
        self.prefix.len() + self.part.len() + self.tag.0.map_or(0, |_| 8) + self.key.len()
    }
}

impl Names {
    pub(super) fn new(prefix: String) -> Names {
        Names { prefix, clustered: false, slot: None }
    }

    pub(super) fn clustered(prefix: String) -> Names {
        let slot = hash_tag(&prefix).map(|_| slot_of(&prefix, ""));
        Names { prefix, clustered: true, slot }
    }

    /// The slot of the lock, and of everything that belongs to it, in a cluster.
    pub(super) fn slot(&self, key: &str) -> u16 {
        self.slot.unwrap_or_else(|| slot_of(&self.prefix, key))
    }

    pub(super) fn tag(&self, key: &str) -> Tag {
        if self.clustered && self.slot.is_none() {
            Tag::of_slot(slot_of(&self.prefix, key))
        } else {
            Tag::none()
        }
    }

    fn name<'a>(&'a self, part: &'static str, tag: Tag, key: &'a str) -> Name<'a> {
        Name { prefix: &self.prefix, part, tag, key }
    }

    /// The lock itself: exactly the user's key, so that services in other languages see the same lock.
    pub(super) fn lock<'a>(&'a self, key: &'a str) -> Name<'a> {
        self.name("", Tag(None), key)
    }

    /// List of the waiting tokens.
    pub(super) fn queue<'a>(&'a self, tag: Tag, key: &'a str) -> Name<'a> {
        self.name("dl1:q:", tag, key)
    }

    /// Hash from each waiting token to what the releaser must know about it.
    pub(super) fn entries<'a>(&'a self, tag: Tag, key: &'a str) -> Name<'a> {
        self.name("dl1:e:", tag, key)
    }

    /// Sorted set of the holders of a shared or limited lock, by expiry.
    pub(super) fn members<'a>(&'a self, tag: Tag, key: &'a str) -> Name<'a> {
        self.name("dl1:m:", tag, key)
    }

    /// The counter of fencing tokens: one for all keys, or in a cluster one for each slot.
    pub(super) fn fence(&self, tag: Tag) -> Name<'_> {
        self.name("dl1:f", tag, "")
    }

    /// The servers that share the keys with this one.
    pub(super) fn shards(&self) -> Name<'_> {
        self.name("dl1:shards", Tag(None), "")
    }

    /// The run of the server in which it was found to count as a member of a quorum.
    pub(super) fn run(&self) -> Name<'_> {
        self.name("dl1:run", Tag(None), "")
    }

    /// That run, and when it was first met.
    pub(super) fn met(&self) -> Name<'_> {
        self.name("dl1:run:met", Tag(None), "")
    }

    /// The longest ttl of any lease on a member of a quorum, in milliseconds.
    pub(super) fn longest_ttl(&self) -> Name<'_> {
        self.name("dl1:run:ttl", Tag(None), "")
    }

    /// A key that `client` writes and immediately deletes, so that the replicas can confirm it.
    pub(super) fn mark<'a>(&'a self, client: &'a str) -> Name<'a> {
        self.name("dl1:w:", Tag(None), client)
    }

    /// The channel on which `client` receives grants: from every node, or from the node that serves the tag's slot.
    pub(super) fn channel<'a>(&'a self, tag: Tag, client: &'a str) -> Name<'a> {
        self.name("dl1:c:", tag, client)
    }

    /// The record of a process.
    pub(super) fn process<'a>(&'a self, client: &'a str) -> Name<'a> {
        self.name(PROCESS, Tag(None), client)
    }

    /// The same as a key, which is where it lies in a cluster.
    pub(super) fn record_key(client: &str) -> Arc<str> {
        format!("{PROCESS}{client}").into()
    }

    /// The client whose record has this name.
    pub(super) fn client_of_record<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.key_of(name)?.strip_prefix(PROCESS)
    }

    /// The record of the lease with this token.
    pub(super) fn hold<'a>(&'a self, tag: Tag, token: &'a str) -> Name<'a> {
        self.name("dl1:h:", tag, token)
    }

    /// A pattern of the server's for the locks whose keys begin like this.
    pub(super) fn pattern(&self, beginning: &str) -> String {
        let mut pattern = String::new();
        for c in self.lock(beginning).to_string().chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '^' | '-' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern.push('*');
        pattern
    }

    /// The key of a lock's name; `None` for a name outside the prefix.
    pub(super) fn key_of<'a>(&self, lock: &'a str) -> Option<&'a str> {
        lock.strip_prefix(self.prefix.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_argument(name: &Name<'_>) -> String {
        let mut cmd = Cmd::new();
        name.add_to(&mut cmd);
        let text = String::from_utf8(cmd.get_packed_command()).unwrap();
        text.strip_prefix(&format!("*1\r\n${}\r\n", name.to_string().len())).unwrap().trim_end().to_owned()
    }

    #[test]
    fn in_a_cluster_everything_lies_in_the_slot_of_the_lock_whatever_the_braces() {
        for prefix in ["", "shop:", "a}b", "{shop}:", "x{y}{z"] {
            let names = Names::clustered(prefix.to_owned());
            for key in [
                "k",
                "a}b",
                "{",
                "}",
                "{}",
                "{}x",
                "{a}b",
                "a{b}c{d}",
                "{{a}}",
                "a{b",
                "}{",
                "\u{fc}{\u{e4}}",
            ] {
                let tag = names.tag(key);
                let slot = slot_of(&names.lock(key).to_string(), "");
                assert_eq!(names.slot(key), slot, "{prefix} {key}");
                let (queue, entries) = (names.queue(tag, key), names.entries(tag, key));
                let hold = names.hold(tag, "dl1:c:7");
                for name in [queue, entries, names.members(tag, key), names.fence(tag), hold] {
                    assert_eq!(slot_of(&name.to_string(), ""), slot, "{name}");
                    assert_eq!(as_argument(&name), name.to_string());
                    assert!(name.len() >= name.to_string().len());
                    assert!(name.to_string().starts_with(prefix));
                }
            }
        }
    }

    #[test]
    fn keys_are_searched_for_by_a_pattern_of_their_beginning() {
        let names = Names::new("a*[b]:".to_owned());
        assert_eq!(names.pattern("k?"), "a\\*\\[b\\]:k\\?*");
        let record = names.process("web.01").to_string();
        assert_eq!(names.client_of_record(&record), Some("web.01"));
        assert_eq!(names.client_of_record("dl1:i:web.01"), None);
        assert_eq!(as_argument(&names.process("web.01")), record);
        assert_eq!(names.lock(&Names::record_key("web.01")).to_string(), record);
    }

    #[test]
    fn two_keys_never_share_a_name() {
        let names = Names::clustered(String::new());
        let mut seen = std::collections::HashSet::new();
        for key in ["a", "{1}a", "{a}", "1}a", "{x}y", "y"] {
            assert!(seen.insert(names.queue(names.tag(key), key).to_string()), "{key}");
        }
    }
}
