//! The entry point of the fuzz target `stores`: all code here that reads data of a server or of another client.
//!
//! No input may cause a panic. The other requirements are asserted.

use mysql_async::{Error, ServerError};

use super::diagnosis::of_settings;
use super::errors::{self, Phase};
use super::kinds::{kind_of, written};
use super::statements::{Acquired, hex};
use distlock_store::LockKind;

/// The number of an acquisition, texts of rows, and errors.
pub fn server(data: &[u8]) {
    if let Some(number) = data.first_chunk() {
        drop(Acquired::of(Some(u64::from_le_bytes(*number))));
    }
    let literal = hex(data);
    assert!(literal.len() == 2 * data.len() + "x''".len() && literal.is_ascii(), "{literal}");
    let Ok(text) = str::from_utf8(data) else { return };
    let kind = kind_of(text);
    if kind != LockKind::Exclusive {
        assert_eq!(kind_of(&written(kind).0), kind);
    }
    of_settings(
        &text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    );
    error(text);
}

/// An error: its number, and the message of the server.
fn error(text: &str) {
    let Some((code, message)) = text.split_once(' ') else { return };
    let Ok(code) = code.parse() else { return };
    let error = Error::Server(ServerError { code, message: message.to_owned(), state: "HY000".to_owned() });
    for phase in [Phase::Connecting, Phase::Asking] {
        let text = errors::of(&error, phase).to_string();
        assert!(!text.contains(char::is_control), "{text:?}");
        // Other characters may be escaped.
        let is_plain = message.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        assert!(!is_plain || text.contains(message), "{text}: without the server's own words");
    }
}

#[cfg(test)]
#[path = "../../../fuzz/read_seeds.rs"]
mod read_seeds;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        super::read_seeds::all_pass(b"y", super::server);
    }
}
