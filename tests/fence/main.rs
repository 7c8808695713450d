//! `distlock-fence` on real databases: each test of `suite` on PostgreSQL, MariaDB and SQLite, then what only one of
//! them can do.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attribute;
mod lost_answers;
mod once;
mod suite;
mod world;
