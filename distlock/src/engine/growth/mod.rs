//! What a fleet of processes asks of one server, against its size.
//!
//! The processes are real engines, and the server is the model that the scripts are compared with. Nothing fails here:
//! what the promises are worth under faults is for [`sim`](super::sim) to show. The server carries out one command
//! after the other, and each takes as long as it was measured to take on a real one (see [`fleet`]), so a fleet
//! that is too large for it shows as commands that queue.
//!
//! `cargo test --release -p distlock --lib engine::growth -- --ignored --nocapture` runs the large sizes and prints one
//! JSON object for each; `docs/scale.md` shows them.

mod crowd;
mod fleet;
mod tally;
mod tests;
