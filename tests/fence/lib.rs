//! Tests of `distlock-fence` against real databases.

#[cfg(doctest)]
mod book;
