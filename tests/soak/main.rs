//! A soak: client processes of all kinds of locks work on real servers while faults are drawn at random, and a judge
//! looks for broken promises.
//!
//! ```sh
//! cargo run --release -p distlock-tests --bin soak -- --minutes 60 --seed 1
//! ```
//!
//! Prints a row for each topology and exits with 1 if a promise was broken. Everything runs on 127.0.0.1. The seed
//! decides which faults are drawn and in which order, not how they meet with the work. With `--topology control` every
//! other client locks nothing but memory of its own: there the judge has to find overlaps.
//!
//! | column | |
//! |---|---|
//! | sections, faults | how many there were |
//! | overlaps | holders that believed to hold what excludes each other, by their kinds |
//! | within a min_hold | sections that began while a `min_hold` was to keep others out |
//! | tokens | fencing tokens used twice, or older than those of an earlier section |
//! | writes | refused by a register that checks tokens although their holders held the lock |
//! | overdue | requests and releases that took longer than they may, or hung |
//! | too long | leases that outlived `max_hold`, or their ttl without renewal |
//! | residue | keys that stayed when all processes had ended, or that have no ttl |
//! | by design | of the above, what happened in a fail-over that may lose writes, or after `FLUSHALL` on one of five servers; it is not counted there |
//! | longest wait | of a request, from the end of all faults |

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used)]

mod campaign;
mod client;
mod fleet;
mod judge;
mod options;
mod plan;
mod record;
mod register;
mod section;
mod servers;
mod table;

use std::process::ExitCode;

use options::{Options, Topology, USAGE};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "client") {
        client::main(&words[1..]);
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(mistake) => {
            eprintln!("{mistake}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    let share = options.time / u32::try_from(options.topologies.len()).unwrap();
    table::print_head();
    let mut kept = true;
    for &topology in &options.topologies {
        let outcome = campaign::run(topology, share, &options);
        table::print(topology, &outcome);
        kept &= if topology == Topology::Control {
            outcome.verdict.overlaps > 0
        } else {
            outcome.kept_every_promise()
        };
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
