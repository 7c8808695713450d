//! Explores the worlds of the model at their larger size: `cargo run --release -p distlock-model -- [world]…`. With
//! `small` as the first argument, it uses the size of the tests.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use distlock_model::{
    explore::explore,
    worlds::{ALL, Size},
};

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let size = if words.first().is_some_and(|word| word == "small") {
        words.remove(0);
        Size::Small
    } else {
        Size::Large
    };
    println!("| world | states | depth | seconds | found |\n|---|---|---|---|---|");
    let mut found = false;
    for (name, world) in
        ALL.iter().filter(|(name, _)| words.is_empty() || words.iter().any(|word| word == name))
    {
        let outcome = explore(&world(size));
        let bad = outcome.counterexample.as_ref().map_or("nothing", |(property, _)| property);
        println!(
            "| {name} | {} | {} | {:.1} | {bad} |",
            outcome.states,
            outcome.depth,
            outcome.time.as_secs_f64()
        );
        if let Some((_, path)) = outcome.counterexample {
            found = true;
            println!("{path:#?}");
        }
    }
    if found { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
