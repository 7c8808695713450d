//! Lines on the standard output.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line. If nobody reads any more, as behind `| head`, the line is lost, and the exit status stays right.
pub(crate) fn say(line: impl Display) {
    drop(writeln!(io::stdout().lock(), "{line}"));
}
