//! Distributed locks as an annotation.

mod backend;
