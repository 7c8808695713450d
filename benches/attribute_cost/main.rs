//! What the attribute costs: compile time of the macro crate, of 200 annotated functions against the same without
//! the attribute, and time, allocations and future size per call on the memory backend.
//!
//! `cargo bench -p distlock-benches --bench attribute_cost [-- compile | -- run]`

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
