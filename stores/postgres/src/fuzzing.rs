//! The entry point of the fuzz target `stores`: all code here that reads data of a server or of another client.
//!
//! No input may cause a panic. The other requirements are asserted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::commands::{acquired, kind_of, number_of, replaced};
use super::diagnosis::of_settings;
use super::grants::{Grants, unhex};
use super::listing::read_name;
use distlock_store::{Owner, StoreEvents};

/// The texts of rows and of notifications.
pub fn server(data: &[u8]) {
    if let Some(number) = data.first_chunk() {
        let kind = kind_of(i32::from_le_bytes(*number));
        assert_eq!(kind_of(number_of(kind)), kind);
    }
    let Ok(text) = str::from_utf8(data) else { return };
    for line in text.lines().chain([text]) {
        drop((acquired(line), replaced(line)));
        read_name(line);
        notification(line);
    }
    of_settings(
        &text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        None,
    );
}

/// A notification that may be a grant for an owner that waits.
fn notification(text: &str) {
    if let Some(key) = text.split(' ').nth(2).and_then(unhex) {
        let digits: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
        let word = text.split(' ').nth(2).unwrap_or_default();
        assert!(digits.eq_ignore_ascii_case(word), "{word} is not how a key is written");
    }
    let (sender, mut reports) = mpsc::unbounded_channel();
    let events = StoreEvents::new("c".into(), sender, Arc::default(), watch::channel(true).1);
    let grants = Grants::default();
    grants.asks(&Owner::new("c", 7), distlock_store::clock::now(), Duration::from_secs(3), 0);
    grants.heard(text, &events);
    assert!(reports.try_recv().is_err() || reports.try_recv().is_err(), "two reports of one message");
}

#[cfg(test)]
#[path = "../../../fuzz/read_seeds.rs"]
mod read_seeds;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        super::read_seeds::all_pass(b"p", super::server);
    }
}
