//! What the examples share: nothing that has to do with locks, so that every example reads on its own.

mod table;

pub use table::Table;
