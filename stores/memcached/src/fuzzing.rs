//! The entry point of the fuzz target `stores`: all code here that reads data of a server or of another client.
//!
//! No input may cause a panic. The other requirements are asserted.

use super::diagnosis::{figure, found};
use super::link::RawResponse;
use super::meta::{Command, LONGEST_KEY, Response, written};

/// The number of the command that is answered.
const NUMBER: u32 = 7;

/// The bytes of a connection.
pub fn server(data: &[u8]) {
    let mut rest = data;
    while let Some(Some(RawResponse { line, value, length })) = RawResponse::first_of(rest) {
        assert!(line.value.is_none_or(|size| size == value.len()), "a value that is cut");
        let response = line.said(value, NUMBER);
        if let Some(Response::Found(item)) = &response {
            assert_eq!(item.value, String::from_utf8_lossy(value));
        }
        // Wherever the bytes are cut, the reply is not read before it is complete.
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

/// A key with any text stays in one line.
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
        super::read_seeds::all_pass(b"m", super::server);
    }
}
