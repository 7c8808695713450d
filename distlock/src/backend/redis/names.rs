//! What our keys and channels are called on the server.

use std::fmt;

/// The names of everything that belongs to one deployment: whoever shares locks shares the prefix.
#[derive(Clone, Debug)]
pub(super) struct Names {
    prefix: String,
}

/// One name, written straight into a command without being built first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    prefix: &'a str,
    part: &'static str,
    key: &'a str,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix)?;
        f.write_str(self.part)?;
        f.write_str(self.key)
    }
}

impl Name<'_> {
    pub(super) fn len(&self) -> usize {
        self.prefix.len() + self.part.len() + self.key.len()
    }
}

impl Names {
    pub(super) fn new(prefix: String) -> Names {
        Names { prefix }
    }

    fn name<'a>(&'a self, part: &'static str, key: &'a str) -> Name<'a> {
        Name { prefix: &self.prefix, part, key }
    }

    /// The lock itself: exactly the user's key, so that services in other languages see the same lock.
    pub(super) fn lock<'a>(&'a self, key: &'a str) -> Name<'a> {
        self.name("", key)
    }

    /// List of the tokens that wait.
    pub(super) fn queue<'a>(&'a self, key: &'a str) -> Name<'a> {
        self.name("dl1:q:", key)
    }

    /// Hash from waiting token to what the releaser must know about it.
    pub(super) fn entries<'a>(&'a self, key: &'a str) -> Name<'a> {
        self.name("dl1:e:", key)
    }

    /// Sorted set of the holders of a shared or limited lock, by expiry.
    pub(super) fn members<'a>(&'a self, key: &'a str) -> Name<'a> {
        self.name("dl1:m:", key)
    }

    /// The counter of fencing tokens, one for all keys.
    pub(super) fn fence(&self) -> Name<'_> {
        self.name("dl1:f", "")
    }

    /// Where `client` listens for grants.
    pub(super) fn channel<'a>(&'a self, client: &'a str) -> Name<'a> {
        self.name("dl1:c:", client)
    }

    /// The key of a lock's name; nothing for a name outside the prefix.
    pub(super) fn key_of<'a>(&self, lock: &'a str) -> Option<&'a str> {
        lock.strip_prefix(self.prefix.as_str())
    }
}
