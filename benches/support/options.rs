//! The options on the command line.

/// Whether to run long enough for the figures of the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Every figure, with all repetitions.
    Full,
    /// Every figure once, with short runs.
    Quick,
}

impl Length {
    /// `--quick` anywhere on the command line.
    #[must_use]
    pub fn from_args() -> Length {
        if std::env::args().any(|arg| arg == "--quick") { Length::Quick } else { Length::Full }
    }

    /// One of two values.
    pub fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Length::Full => full,
            Length::Quick => quick,
        }
    }
}

/// The parts on the command line. If there are none, all parts.
#[derive(Clone, Debug)]
pub struct Parts(Vec<String>);

impl Parts {
    /// Every argument that is not an option.
    #[must_use]
    pub fn from_args() -> Parts {
        Parts(std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect())
    }

    /// Whether to run the part called `name`.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|part| part == name)
    }
}
