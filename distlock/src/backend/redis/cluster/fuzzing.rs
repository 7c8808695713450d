//! The entry point of the fuzz target that reads the replies of cluster nodes.

use redis::Value;

use super::map::{View, redirected};
use crate::backend::redis::config::Address;
use crate::backend::redis::slots::SLOTS;

/// The reply to `CLUSTER SLOTS`, the text of `CLUSTER INFO`, and a redirection.
pub(in super::super) fn read(asked: &Address, slots: Option<Value>, info: &str) {
    redirected(asked, info, None).inspect(|(slot, _)| assert!(*slot < SLOTS, "a slot beyond the last"));
    let Some(slots) = slots else { return };
    let info = Value::BulkString(info.as_bytes().to_vec());
    if let Some(view) = View::read(asked, &[slots, info], None) {
        assert!(!view.masters().is_empty() && view.masters().is_subset(&view.members));
    }
}
