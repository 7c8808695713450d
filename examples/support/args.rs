//! Options that several examples have.

use clap::builder::RangedU64ValueParser;

/// Where the locks are kept.
#[derive(Debug, Clone, clap::Args)]
pub struct Store {
    /// Where the locks are kept: memory:, redis://host:port/, postgres://user@host/database, ...
    #[arg(long, default_value = "memory:")]
    pub url: String,
}

/// For `#[arg(value_parser = count())]`: a number of at least 1.
#[must_use]
pub fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}
