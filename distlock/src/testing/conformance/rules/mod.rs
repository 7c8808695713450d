//! The rules, one function each, by what they are about.

pub mod attribute;
pub mod exclusion;
pub mod fencing;
pub mod hand_over;
pub mod joining;
pub mod kinds;
pub mod lacking;
pub mod leader;
pub mod lease;
pub mod limited;
pub mod linger;
pub mod link;
pub mod listing;
pub mod loss;
pub mod min_hold;
pub mod operations;
pub mod processes;
pub mod queue;
pub mod reentry;
pub mod release;
pub mod several_keys;
pub mod shared;
pub mod threads;
pub mod ttl;
pub mod values;
pub mod waiting;
