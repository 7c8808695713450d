//! The two functions that an example compares.

use clap::ValueEnum;

/// Which function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The function without a lock.
    Unguarded,
    /// The same function with the attribute.
    Guarded,
}

impl Side {
    /// Both of them.
    pub const BOTH: [Side; 2] = [Side::Unguarded, Side::Guarded];

    /// The name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Unguarded => "unguarded",
            Side::Guarded => "#[distributed_lock]",
        }
    }
}
