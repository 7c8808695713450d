//! The entry point of the fuzz target `stores`: everything here that reads what a server, or another client, has
//! written.
//!
//! Nothing may panic, whatever is read. The other requirements are asserted.

use super::diagnosis::{figure, found};
use super::link::RawResponse;
use super::meta::{Command, LONGEST_KEY, Response, written};

/// The number of the command that is answered.
const NUMBER: u32 = 7;

/// What comes over a connection.
pub fn server(data: &[u8]) {
    let mut rest = data;
    while let Some(Some(RawResponse { line, value, length })) = RawResponse::first_of(rest) {
        assert!(line.value.is_none_or(|size| size == value.len()), "a value that is cut");
        let response = line.said(value, NUMBER);
        if let Some(Response::Found(item)) = &response {
            assert_eq!(item.value, String::from_utf8_lossy(value));
        }
        // However the bytes are cut, the answer is not read before all of it is there.
        for end in [length / 2, length - 1] {
            assert!(matches!(RawResponse::first_of(&rest[..end]), Some(None)), "half an answer");
        }
        rest = &rest[length..];
    }
    if let Ok(text) = str::from_utf8(data) {
        found(&text.lines().filter_map(figure).map(|(name, value)| (name.into(), value.into())).collect());
        key(text);
    }
}

/// A key of any text is one line.
fn key(key: &str) {
    if key.len() <= LONGEST_KEY {
        let line = written(key, Command::Get, NUMBER);
        let end = line.iter().position(|byte| byte.is_ascii_control());
        assert_eq!(end, line.len().checked_sub("\r\n".len()), "{key:?}");
    }
}

#[cfg(test)]
#[path = "../../../fuzz/read_seeds.rs"]
mod read_seeds;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_pass() {
        for seed in super::read_seeds::seeds("stores") {
            seed.strip_prefix(b"m").into_iter().for_each(super::server);
        }
    }
}
