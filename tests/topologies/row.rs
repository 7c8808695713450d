//! A row of the table in `docs/faults.md`.

use crate::load::Outcome;

const COMMAND: &str = "cargo test -p distlock-tests --test topologies";

/// Prints what came of a fault, as a line of the table. `test` is the name of the test that measured it.
#[allow(clippy::print_stdout)]
pub(crate) fn print(topology: &str, fault: &str, test: &str, outcome: &Outcome) {
    let residue = match outcome.residue {
        None => "0".to_owned(),
        Some((keys, stayed)) => format!("{keys}, for {:.1} s", stayed.as_secs_f64()),
    };
    println!(
        "| {topology} | {fault} | {sections} | {overlaps} | {refused} | {pause} ms | {residue} | {errors} | `{COMMAND} {test} -- --nocapture` |",
        sections = outcome.sections,
        overlaps = outcome.overlaps.len(),
        refused = outcome.refused,
        pause = outcome.pause.as_millis(),
        errors = errors(outcome),
    );
}

fn errors(outcome: &Outcome) -> String {
    let counts: Vec<_> = outcome.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if counts.is_empty() { "0".to_owned() } else { counts.join(", ") }
}
