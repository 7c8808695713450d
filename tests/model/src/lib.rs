//! The protocol of one key as a small model, explored in every order of events within stated bounds.
//!
//! Two or three processes request the lock. The server executes `enter`, `leave` and `renew` as its scripts do
//! ([`server`]). The processes follow the rules of the engine ([`process`]). Time is counted in ticks: a lease lasts
//! three, a claim two, a heartbeat one. All events may happen between two ticks. [`bounds`] limits the number of faults
//! on one path. The faults are messages that other events overtake, lost or doubled pushes, connections that break, and
//! processes that crash. The commands of a broken connection arrive late or never, and the next connection may or may
//! not kill it. A message that is not slow arrives before any other event, so orders with more slow messages than
//! stated are not explored.
//!
//! These properties must hold in every state ([`model`]): At most one process believes that it holds the lock. Fencing
//! tokens rise from section to section. A section that has ended stays ended. No process enters within a `min_hold`. No
//! lock and no place in the queue is left that its process does not know. A loss is reported only if there was one. If
//! no message is slow, no process waits for too long.
//!
//! Each rule of the protocol that the model can express ([`Rule`]) has a test. The test finds the counterexample that
//! shows the purpose of the rule. The simulations of the engine cover what the model cannot express: clocks that drift
//! or are set, several servers, shared and limited locks, servers that forget.
//!
//! ```sh
//! cargo test -p distlock-model                            # the small size
//! cargo run --release -p distlock-model -- [world]...     # the large one; a world at a time needs less memory
//! ```
//!
//! [`worlds`] lists the numbers of states.
#![allow(missing_docs, missing_debug_implementations, reason = "not published; names say what they are")]

pub mod bounds;
pub mod explore;
pub mod model;
pub mod process;
pub mod rules;
pub mod server;
pub mod worlds;

pub use bounds::{Bounds, ClientKill, Crashes, Faults};
pub use rules::Rule;
