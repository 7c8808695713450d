//! The promise of an error about its command, and the text of servers in it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::escaped::Escaped;

/// The promise of an error about its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was no link, so the command never left this process.
    NotSent,
    /// The link broke, no reply came, or the server or a proxy in front of it reported an error that we do
    /// not know: the command may have been applied, or may be applied later. Worth another try.
    Unknown,
    /// The server refused temporarily and did nothing (loading, busy with a script, cluster down, read-only
    /// until the master is found, out of memory, too few replicas, disk full). Worth another try while the
    /// request waits. A release is repeated until nothing of its lease can be left.
    Later,
    /// The server refused permanently (no permission, wrong password, unknown command, a key of another
    /// type). A script with several steps may have completed some of them.
    Refused,
}

/// An error of a server or of the system, made safe to print: [`Escaped`], with the errors below it.
pub fn told(error: Box<dyn Error + Send + Sync>) -> Arc<dyn Error + Send + Sync> {
    let below = Below::of(error.source());
    Arc::new(Told { error, below })
}

/// `text`, and the causes below it that it does not contain.
pub fn with_causes(mut text: String, mut cause: Option<&(dyn Error + 'static)>) -> String {
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

/// Text of our own in several lines, such as a script to run. The words of others in it are escaped already.
#[derive(Debug)]
pub struct OwnLines(pub String);

impl fmt::Display for OwnLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for OwnLines {}

/// Whether `error` was passed to [`told`], as a `T`.
pub fn is_told<T: Error + 'static>(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<Told>().is_some_and(|told| told.error.is::<T>())
}

/// The error that was passed to [`told`].
pub(crate) struct Told {
    error: Box<dyn Error + Send + Sync>,
    below: Option<Box<Below>>,
}

/// An error that is the source of another one.
#[derive(Debug)]
struct Below {
    text: String,
    below: Option<Box<Below>>,
}

impl Below {
    fn of(error: Option<&(dyn Error + 'static)>) -> Option<Box<Below>> {
        let error = error?;
        Some(Box::new(Below { text: Escaped(error).to_string(), below: Below::of(error.source()) }))
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.downcast_ref::<OwnLines>() {
            Some(lines) => lines.fmt(f),
            None => write!(f, "{}", Escaped(&self.error)),
        }
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl Error for Told {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.below.as_deref().map(|below| below as &(dyn Error + 'static))
    }
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Below {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.below.as_deref().map(|below| below as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Chain(u32);

    impl fmt::Display for Chain {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "error {}\nforged \u{1b}[31m", self.0)
        }
    }

    impl Error for Chain {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            const BELOW: [Chain; 2] = [Chain(1), Chain(2)];
            BELOW.get(usize::try_from(self.0).ok()?).map(|error| error as &(dyn Error + 'static))
        }
    }

    /// However a program prints it, as a whole or with all its sources.
    #[test]
    fn no_word_of_a_server_begins_a_line_or_moves_a_cursor() {
        let told = told(Box::new(Chain(0)));
        assert_eq!(told.to_string(), r"error 0\nforged \u{1b}[31m");
        let sources = std::iter::successors(told.source(), |&error| error.source());
        let texts: Vec<String> = sources.map(ToString::to_string).collect();
        assert_eq!(texts, [r"error 1\nforged \u{1b}[31m", r"error 2\nforged \u{1b}[31m"]);
    }
}
