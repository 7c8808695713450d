//! The protocol of one key as a small model, explored in every order of events within stated bounds.
pub mod bounds;
pub mod explore;
pub mod model;
pub mod process;
pub mod rules;
pub mod server;
pub mod worlds;

pub use bounds::{Bounds, ClientKill, Faults};
pub use rules::Rule;
