//! Keys with their hashes. An event hashes its key once: to choose the machine, and to find the key there.

use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Hashes keys. Clients choose keys, so the hash depends on a seed that they do not know. Otherwise, they could choose
/// many keys with the same hash.
#[derive(Clone, Debug)]
pub(crate) struct KeyHasher(DefaultHasher);

impl KeyHasher {
    pub(crate) fn new(seed: u64) -> Self {
        let mut seeded = DefaultHasher::new();
        seeded.write_u64(seed);
        KeyHasher(seeded)
    }

    pub(crate) fn hash(&self, key: &str) -> KeyHash {
        let mut hasher = self.0.clone();
        hasher.write(key.as_bytes());
        KeyHash(hasher.finish())
    }
}

/// The hash of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    /// Which of `count` shares of the keys it belongs to.
    pub(crate) fn share_of(self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(1);
        usize::try_from(self.0 % count).unwrap_or(0)
    }
}

/// A key in a map of one share of the keys.
#[derive(Debug)]
pub(crate) struct HashedKey {
    pub(crate) key: Arc<str>,
    pub(crate) hash: KeyHash,
}

impl PartialEq for HashedKey {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for HashedKey {}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The lowest bits are the same for all keys of a share, and a map looks at those first.
        state.write_u64(self.hash.0.rotate_left(32));
    }
}

/// For maps whose keys are hashed already.
pub(crate) type AlreadyHashed = BuildHasherDefault<KnownHash>;

#[derive(Debug, Default)]
pub(crate) struct KnownHash(u64);

impl Hasher for KnownHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
