//! The entry point of the fuzz target that reads what a search finds.

use std::time::Duration;

use super::{MAX_SEARCH_BYTES, MOST_CLIENTS, ProcessRecord, ScanResult, Search};
use crate::backend::redis::names::Names;
use crate::protocol::records::{LONGEST_CLIENT, LONGEST_KEY};

/// The names that servers find, in the order in which they find them, and a record.
pub(in super::super) fn read<'a>(found: impl Iterator<Item = &'a str> + Clone, record: &str) {
    let names = Names::new("p:".to_owned());
    for after in [None, Some("k".into())] {
        let mut result = ScanResult::new(Search::new("", after));
        found.clone().for_each(|name| result.add(&names, name));
        assert!(result.size <= MAX_SEARCH_BYTES && result.clients.len() <= MOST_CLIENTS);
        assert!(result.keys.iter().all(|key| !key.is_empty() && key.len() <= LONGEST_KEY));
        assert!(result.clients.iter().all(|client| client.len() <= LONGEST_CLIENT));
    }
    let read = ProcessRecord::of(Ok(Some((record.to_owned(), Duration::from_secs(3)))));
    assert!(read.who.is_some() || read.is_silent, "a record that says nothing");
}
