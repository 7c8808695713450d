//! The table of results.

use crate::{campaign::Outcome, options::Store};

pub(crate) fn print_head() {
    println!(
        "| run | sections | faults | overlaps | within a min_hold | tokens used twice | tokens falling | writes out of order | overdue or hung \
         | held too long | never expires | by design | longest wait after calm | errors |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
}

pub(crate) fn print(store: Store, outcome: &Outcome) {
    let errors: Vec<_> =
        outcome.verdict.errors.iter().map(|(name, count)| format!("{count} {name}")).collect();
    println!(
        "| {title}, {minutes:.1} min | {sections} | {faults} | {overlaps} | {early} | {repeated} | {falling} | {writes} | {late} | \
         {too_long} | {residue} | {by_design}{excused} | {wait:.1} s | {errors} |",
        title = store.title(),
        minutes = outcome.time.as_secs_f64() / 60.0,
        sections = outcome.verdict.sections,
        faults = outcome.faults,
        overlaps = outcome.verdict.overlaps,
        early = outcome.verdict.too_early,
        repeated = outcome.verdict.repeated_tokens,
        falling = outcome.verdict.falling_tokens,
        writes = outcome.verdict.disordered_writes,
        late = u64::try_from(outcome.verdict.overdue).unwrap_or(u64::MAX) + outcome.hung,
        too_long = outcome.verdict.too_long,
        residue = outcome.residue.len(),
        by_design = outcome.verdict.by_design,
        excused = excused(outcome),
        wait = outcome.longest_wait().as_secs_f64(),
        errors = errors.join(", "),
    );
    if outcome.stuck > 0 {
        println!("\n{} rounds after whose faults nobody worked again", outcome.stuck);
    }
    if let Some(first) = outcome.residue.first() {
        println!("\nnever expires: {first}");
    }
    if store != Store::Control {
        for (name, example) in &outcome.verdict.examples {
            println!("\n{name}: {example}");
        }
    }
}

/// In which share of the time findings count as "by design".
fn excused(outcome: &Outcome) -> String {
    if outcome.excused.is_zero() {
        return String::new();
    }
    format!(" in {:.0} % of the time", 100.0 * outcome.excused.as_secs_f64() / outcome.time.as_secs_f64())
}
