//! The load of a fleet of processes on one server, by the size of the fleet.
//!
//! The processes are real engines, and the server is the model that the scripts are compared with. There are no faults:
//! [`sim`](super::sim) tests the promises under faults. The server executes one command after the other. Each takes the
//! time that was measured on a real server (see [`fleet`]), so commands queue if a fleet is too large for the server.
//!
//! `cargo test --release -p distlock --lib engine::growth -- --ignored --nocapture` runs the large sizes and prints one
//! JSON object for each; `docs/scale.md` shows them.

mod crowd;
mod fleet;
mod tally;
mod tests;
