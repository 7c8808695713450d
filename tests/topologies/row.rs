//! A row of the table in `docs/faults.md`.

use distlock_tests::{PostgresServer, eventually};

use crate::load::{Load, Outcome};

const COMMAND: &str = "cargo test -p distlock-tests --test topologies";

/// Prints the result of a fault, as a row of the table. `test` is the name of the test that measured it.
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

/// Lets all processes finish on PostgreSQL, prints the row, and checks that no lock is left and no two holders have
/// overlapped.
pub(crate) async fn of_postgres(load: Load, server: &PostgresServer, fault: &str, test: &str) {
    let outcome = load.finish(&[]).await;
    eventually("nothing is left", async || server.residue("distlock", "").await.is_empty()).await;
    print("PostgreSQL", fault, test, &outcome);
    outcome.assert_exclusive();
}

fn errors(outcome: &Outcome) -> String {
    let counts: Vec<_> = outcome.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if counts.is_empty() { "0".to_owned() } else { counts.join(", ") }
}
