//! The protocol of one key as a small model, explored in every order of events within stated bounds.
//!
//! Two or three processes want the lock; the server carries out `enter`, `leave` and `renew` as its scripts do
//! ([`server`]); the processes follow the rules of the engine ([`process`]). Time is counted in ticks: a lease lasts
//! three, a claim two, a heartbeat is one, and everything may happen between two ticks. What may go wrong, and how
//! often on one way: messages that are overtaken by other events, for as long as it takes; pushes that are lost, or
//! come twice; connections that break, with commands that arrive late or never, and may or may not be killed by the
//! next one; and processes that crash ([`bounds`]). A message that is not slow arrives before anything else happens, so
//! orders with more slow messages than stated are not explored.
//!
//! In every state must hold: at most one believes to hold the lock; fencing tokens rise from section to section; what
//! has ended stays ended; nobody enters within a `min_hold`; no lock and no place in the queue is left that its process
//! does not know of; a loss is reported only if there was one; and, where nothing is slow, nobody waits for too long
//! ([`model`]).
//!
//! Each rule of the protocol that the model can express ([`Rule`]) has a test which finds the counterexample that shows
//! what the rule is for. What it cannot express, the simulations of the engine do: clocks that drift or are set, more
//! than one server, shared and limited locks, servers that forget.
//!
//! ```sh
//! cargo test -p distlock-model                            # the small size
//! cargo run --release -p distlock-model -- [world]...     # the large one; a world at a time needs less memory
//! ```
//!
//! How many states that are stands in [`worlds`].
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
