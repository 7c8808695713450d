//! A soak: client processes use all kinds of locks on real servers while random faults happen, and a judge searches for
//! broken promises.
//!
//! ```sh
//! cargo run --release -p distlock-tests --bin soak -- --minutes 60 --seed 1
//! cargo run --release -p distlock-tests --bin soak -- --minutes 10 --seed 1 --store postgres
//! ```
//!
//! Prints a row for each store and exits with 1 if a promise was broken. Everything runs on 127.0.0.1. The seed decides
//! the faults and their order, but not their timing relative to the work. With `--store control`, every other client
//! uses only locks in its own memory, so the judge must find overlaps. With `--sections`, the length is a number of
//! sections, and no times are judged. But all of these sections, and eight faults, must have come within two minutes.
//!
//! All stores share the clients and their plans, the faults of clients and links, and the judge. `servers` has a file
//! for each store: its servers, the faults that only they have, and after which of these a second holder is possible by
//! design.
//!
//! | column | |
//! |---|---|
//! | sections, faults | how many there were |
//! | overlaps | holders that believed to hold what excludes each other, by their kinds |
//! | within a min_hold | sections that began while a `min_hold` was to keep others out |
//! | tokens | fencing tokens used twice, or older than those of an earlier section |
//! | writes | refused by a register that checks tokens although their holders held the lock |
//! | overdue | requests and releases that took longer than they may, or hung; clients that ended by themselves, or did no work after the faults |
//! | too long | leases that outlived `max_hold`, or their ttl without renewal |
//! | never expires | keys that were left 20 s after all processes had ended, which is longer than every lease, or that have no ttl |
//! | by design | of the above, what happened in a fail-over that may lose writes, or after a server has forgotten its locks; it is not counted there. Then the share of such time |
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

use judge::Breach;
use options::{Length, Options, Store, USAGE};

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
    let count = u32::try_from(options.stores.len()).unwrap();
    let share = match options.length {
        Length::Time(time) => Length::Time(time / count),
        Length::Sections(sections) => Length::Sections(sections),
    };
    table::print_head();
    let mut kept = true;
    for &store in &options.stores {
        let outcome = campaign::run(store, share, &options);
        table::print(store, &outcome);
        kept &= if store == Store::Control {
            outcome.verdict.count(Breach::Overlap) > 0
        } else {
            outcome.kept_every_promise(share)
        };
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
