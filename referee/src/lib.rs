//! A torture test for lock libraries. It starts processes that use a library, and disturbs them, their links and the
//! server. It judges only from outside: by calls, answers, clocks, tokens, and the data that is left on the server.

#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]

pub mod campaign;
pub mod faults;
pub mod history;
pub mod judge;
pub mod picture;
mod place;
pub mod process;
pub mod protocol;
pub mod report;
pub mod results;
pub mod servers;
pub mod table;
