//! Lines on the standard output and on standard error. All output goes through this module, so that no foreign key,
//! name or error can move the cursor of a terminal, or begin a line.

use std::fmt::Display;
use std::io::{self, Write};

use distlock::Escaped;
use serde_json::Value;

/// Prints a line. If the reader is gone, for example behind `| head`, the line is lost, and the exit status stays
/// right.
pub(crate) fn say(line: impl Display) {
    drop(write_line(line));
}

/// Prints a line that must not be lost.
pub(crate) fn write_line(line: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", Escaped(line))?;
    out.flush()
}

/// Prints a text of this program on the standard output as it is. If the reader is gone, the text is lost.
pub(crate) fn say_text(text: &[u8]) {
    drop(io::stdout().lock().write_all(text));
}

/// Prints a text of this program on standard error as it is, without the end of a line.
pub(crate) fn ask(text: impl Display) -> io::Result<()> {
    write!(io::stderr().lock(), "{text}")
}

/// Prints a JSON value in one line. Special characters are escaped.
pub(crate) fn say_json(value: &Value) {
    drop(writeln!(io::stdout().lock(), "{}", json_line(value)));
}

/// A value in one line, without characters that act on a terminal.
pub(crate) fn json_line(value: &Value) -> String {
    let text = value.to_string();
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        // Such characters occur only in strings, because all other parts of JSON are plain ASCII.
        if matches!(c, ' '..='~') || Escaped(c).to_string().chars().eq([c]) {
            line.push(c);
        } else {
            line.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    line
}

/// Prints an error on standard error.
pub(crate) fn complain(line: impl Display) {
    drop(writeln!(io::stderr().lock(), "distlock: {}", Escaped(line)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_means_the_same_and_holds_nothing_that_acts_on_a_terminal() {
        let text = "a\u{1b}[2J\u{7f}\u{9b}31m\u{202e}\u{2028}\u{e0041}\\u{202e} Zürich \u{1f512}\n";
        let value = json!({ text: [text] });
        let line = json_line(&value);
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        assert!(line.contains("Zürich \u{1f512}") && Escaped(&line).to_string() == line, "{line}");
    }
}
