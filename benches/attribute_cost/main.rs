//! The cost of the attribute: compile time of the macro crate, compile time of 200 annotated functions compared with
//! the same functions without the attribute and with two other attributes, and time, allocations and future size for
//! each call on the memory backend.
//!
//! `cargo bench -p distlock-benches --bench attribute_cost [-- compile | -- run]`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

mod calls;
mod compile_time;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if wanted.as_deref().is_none_or(|wanted| wanted == "run") {
        calls::measure()?;
    }
    if wanted.as_deref().is_none_or(|wanted| wanted == "compile") {
        compile_time::measure()?;
    }
    Ok(())
}
