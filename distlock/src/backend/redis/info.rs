//! What a reply says: the report of a server about itself, a text, or an error.

use redis::{ServerError, Value};

/// `INFO` is lines of `name:value`.
pub(super) fn field<'a>(info: Option<&'a str>, name: &str) -> Option<&'a str> {
    info?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

pub(super) fn error(value: &Value) -> Option<&ServerError> {
    match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

pub(super) fn first_error(values: &[Value]) -> Option<&ServerError> {
    values.iter().find_map(error)
}
