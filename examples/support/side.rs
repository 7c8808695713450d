//! The two functions that an example compares.

use clap::ValueEnum;

/// Which function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The one without a lock.
    Unguarded,
    /// The same below the attribute.
    Guarded,
}

impl Side {
    /// Both of them.
    pub const BOTH: [Side; 2] = [Side::Unguarded, Side::Guarded];

    /// As the table calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Unguarded => "unguarded",
            Side::Guarded => "#[distributed_lock]",
        }
    }
}
