//! Foreign text that cannot change the output around it.

use std::fmt::{self, Display, Formatter, Write};

/// Shows text from outside: keys, owner tokens, labels, names of clients, messages of a server.
///
/// Some characters are written as their codes, such as `\n` and `\u{202e}`: control characters, which move the cursor
/// of a terminal or begin a new line of a log; characters that change the direction of a text; and invisible
/// characters. `LockError` is shown in this way. The fields of errors and of listings contain the original text. Wrap
/// them in this type before you print them.
///
/// ```
/// use distlock::Escaped;
///
/// assert_eq!(Escaped("order:42").to_string(), "order:42");
/// assert_eq!(Escaped("42\nERROR all is lost").to_string(), r"42\nERROR all is lost");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Escapes the text that is written to it.
#[doc(hidden)]
pub struct Escaping<'a, 'b>(pub &'a mut Formatter<'b>);

impl fmt::Debug for Escaping<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Escaping")
    }
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Whether a character affects the text around it, or is invisible.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Without a width.
            '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            // Fillers.
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}'
            // Of two directions.
            | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            // Ends of lines and of paragraphs.
            | '\u{2028}' | '\u{2029}'
            // Joiners and operators without a sign, and those of two directions among them.
            | '\u{2060}'..='\u{206f}'
            // Tags, and the planes' other characters without a sign.
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_the_text_around_it_is_written_as_its_code() {
        let codes = [
            0x00..=0x1f,
            0x7f..=0x9f,
            0xad..=0xad,
            0x61c..=0x61c,
            0x200b..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x206f,
            0xfeff..=0xfeff,
            0xe0000..=0xe007f,
        ];
        for c in codes.into_iter().flatten().filter_map(char::from_u32) {
            let shown = Escaped(format!("a{c}b")).to_string();
            assert!(shown.is_ascii() && !shown.contains(char::is_control), "{shown:?}");
            assert!(shown.starts_with("a\\") && shown.ends_with('b'), "{shown}");
        }
        assert_eq!(
            Escaped("a\u{1b}[2J\r\n\u{202e}\u{e0041}").to_string(),
            r"a\u{1b}[2J\r\n\u{202e}\u{e0041}"
        );
    }

    #[test]
    fn what_can_be_read_is_left_as_it_is() {
        for text in ["", "order:42", "a b", "back\\slash", "Zürich", "ключ", "鍵", "\u{1f512}", "“…”"]
        {
            assert_eq!(Escaped(text).to_string(), text);
        }
    }
}
