//! The table of results.

use crate::{campaign::Outcome, judge::Breach, options::Store};

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
    let count = |breach| outcome.verdict.count(breach);
    println!(
        "| {title}, {minutes:.1} min | {sections} | {faults} | {overlaps} | {early} | {repeated} | {falling} | {writes} | {late} | \
         {too_long} | {residue} | {by_design}{excused} | {wait:.1} s | {errors} |",
        title = store.title(),
        minutes = outcome.time.as_secs_f64() / 60.0,
        sections = outcome.verdict.sections,
        faults = outcome.faults,
        overlaps = count(Breach::Overlap),
        early = count(Breach::TooEarly),
        repeated = count(Breach::RepeatedToken),
        falling = count(Breach::FallingToken),
        writes = count(Breach::DisorderedWrite),
        late = count(Breach::Overdue) as u64 + outcome.hung,
        too_long = count(Breach::TooLong),
        residue = outcome.residue.len(),
        by_design = outcome.verdict.by_design,
        excused = excused(outcome),
        wait = outcome.longest_wait().as_secs_f64(),
        errors = errors.join(", "),
    );
    if let Some(first) = outcome.residue.first() {
        println!("\nnever expires: {first}");
    }
    if store != Store::Control {
        for (breach, (_, example)) in &outcome.verdict.breaches {
            println!("\n{breach:?}: {example}");
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
