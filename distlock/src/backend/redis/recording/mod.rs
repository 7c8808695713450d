//! Records runs of real processes and a real server. `scripts/check_traces.sh` holds them against the specification.

mod faults;
mod monitor;
mod run;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::protocol::mutant::Mutant;
use run::{Plan, Run, record};

/// The wall clock counts for the server's lines, and the engines' clock for theirs. They may be so far apart.
const CLOCK_TOLERANCE: Duration = Duration::from_micros(200);

#[test]
fn a_run_is_recorded_from_both_sides() {
    let run = record(&Plan { sections: 20, ..Plan::of_seed(0) });
    let has = |what: &str| run.lines.iter().any(|line| line.contains(what));
    for event in [r#""ev":"server","cmd":"enter""#, r#""ev":"reply","cmd":"enter""#, r#""ph":"held""#] {
        assert!(has(event), "no {event} among {:#?}", run.lines);
    }
}

/// For `scripts/check_traces.sh`: TRACES (directory), FIRST and LAST (seeds), SECTIONS (of each run), FAULTS (1: with
/// faults), MUTANT (the name of a rule to break).
#[test]
#[ignore = "writes files for scripts/check_traces.sh"]
fn runs_are_written() {
    let variable = |name: &str| std::env::var(name).ok();
    let number = |name: &str, other: u64| variable(name).map_or(other, |text| text.parse().unwrap());
    let directory = PathBuf::from(variable("TRACES").unwrap());
    let mutant = variable("MUTANT").map(|name| mutant_of(&name));
    let faults = number("FAULTS", 0) == 1;
    let sections = usize::try_from(number("SECTIONS", 100)).unwrap();
    for seed in number("FIRST", 0)..=number("LAST", 0) {
        let crashes = faults && seed % 3 == 0;
        let run = recorded(&Plan { sections, faults, crashes, mutant, ..Plan::of_seed(seed) });
        fs::write(directory.join(format!("{seed}.jsonl")), run.lines.join("\n")).unwrap();
        println!("run {seed}: {} sections, {} faults, {} lines", run.sections, run.faults, run.lines.len());
    }
}

/// A run in which the wall clock was set says nothing.
fn recorded(plan: &Plan) -> Run {
    let mut runs = std::iter::repeat_with(|| record(plan)).take(50);
    runs.find(|run| run.clock_was_set_by < CLOCK_TOLERANCE).expect("the wall clock is set all the time")
}

/// The broken rules that a run shows, by the commands that are sent, and by the belief of the processes and its
/// duration.
fn mutant_of(name: &str) -> Mutant {
    let mutants = [
        Mutant::DeadlineFromReceipt,
        Mutant::GrantDeadlineFromReceipt,
        Mutant::HandOnAfterLoss,
        Mutant::LateAnswerNotCompensated,
        Mutant::TokenReused,
    ];
    let found = mutants.into_iter().find(|mutant| format!("{mutant:?}") == name);
    found.unwrap_or_else(|| panic!("no run shows {name}"))
}
