//! Shrinks the buffers of maps that have been much larger.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Smaller buffers are kept.
const SMALL: usize = 256;

/// After a removal. What it costs is paid for by the removals since the last time.
pub fn shrink<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.capacity() > SMALL && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_was_large_is_small_again_at_little_cost() {
        let mut map: HashMap<u32, u32> = (0..100_000).map(|n| (n, n)).collect();
        let (mut capacity, mut shrunk) = (map.capacity(), 0);
        for n in 0..100_000 {
            map.remove(&n);
            shrink(&mut map);
            // It falls a little with removals that leave a mark, too.
            shrunk += u32::from(map.capacity() < capacity / 2);
            capacity = map.capacity();
        }
        assert!(capacity <= SMALL, "{capacity}");
        assert!(shrunk < 20, "{shrunk}");
    }
}
