//! Reads all keys in parts. Each mutex is held while the keys of one machine are read.

use std::collections::BinaryHeap;
use std::sync::Arc;

use super::Shards;
use crate::protocol::Pattern;

impl<W> Shards<W> {
    /// The first `most` matching keys after `after`, in order.
    pub(crate) fn keys_behind(&self, after: Option<&str>, pattern: &Pattern, most: usize) -> Vec<Arc<str>> {
        let mut first: BinaryHeap<Arc<str>> = BinaryHeap::new();
        for shard in &self.shards {
            for key in shard.lock().keys_in_use() {
                let is_behind = after.is_none_or(|after| **key > *after);
                // The cheap comparisons come first, because most keys fail them.
                let is_early = first.len() < most || first.peek().is_some_and(|last| key < last);
                if is_behind && is_early && pattern.matches(key) {
                    if first.len() >= most {
                        first.pop();
                    }
                    first.push(key.clone());
                }
            }
        }
        first.into_sorted_vec()
    }
}
