//! Distributed locks as an annotation.
