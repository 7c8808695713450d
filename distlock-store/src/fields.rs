//! Texts as fields of a line that are separated by blanks.

use std::fmt::{self, Display, Write};

/// The number of bytes of an escaped character.
pub const ESCAPED: usize = 3;

/// A text as one field: without blanks and line ends, and never empty.
#[derive(Debug)]
pub struct Field<'a>(pub &'a str);

impl Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_char('%');
        }
        for c in self.0.chars() {
            if c.is_ascii_control() || c == ' ' || c == '%' {
                write!(f, "%{:02X}", u32::from(c))?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// A field that may be missing.
#[derive(Debug)]
pub struct Optional<'a>(pub Option<&'a str>);

impl Display for Optional<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // As a value it would be mistaken for "missing".
            Some("-") => f.write_str("%2D"),
            Some(text) => Field(text).fmt(f),
            None => f.write_char('-'),
        }
    }
}

/// `None`: it is garbled or too long; `Some(None)`: it is missing.
#[must_use]
pub fn optional(field: &str, longest: usize) -> Option<Option<String>> {
    if field == "-" { Some(None) } else { unescape(field, longest).map(Some) }
}

/// `None`: it is garbled, or the text is too long.
pub fn unescape(field: &str, longest: usize) -> Option<String> {
    if field.len() > ESCAPED * longest {
        return None;
    }
    if field == "%" {
        return Some(String::new());
    }
    let mut parts = field.split('%');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        let code = u8::from_str_radix(code, 16).ok().filter(u8::is_ascii)?;
        text.push(char::from(code));
        text.push_str(rest);
    }
    Some(text).filter(|text| text.len() <= longest)
}

/// The beginning of a text that fits into this many bytes.
pub fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
