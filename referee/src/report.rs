//! The report: a page of text, and JSON for programs.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use crate::{
    history::{FaultKind, History},
    judge::{Cause, Verdict},
    protocol::Hello,
};

/// The causes of overlaps, in the order of their weight.
pub const CAUSES: [(Cause, &str); 4] = [
    (Cause::Unexplained, "overlaps"),
    (Cause::CutOff, "overlaps while cut off"),
    (Cause::ToldLate, "told late"),
    (Cause::Paused, "expired while paused"),
];

/// The findings, one in each line.
pub(crate) fn findings(history: &History, verdict: &Verdict) -> Vec<String> {
    let mut found = Vec::new();
    for overlap in &verdict.overlaps {
        let name = CAUSES.iter().find(|(cause, _)| *cause == overlap.cause).map_or("", |(_, name)| name);
        let (first, second) = overlap.processes;
        let told = match overlap.cause {
            Cause::ToldLate => format!("; its loss was reported {} after that", millis(overlap.late)),
            _ if overlap.told_released => "; its release was confirmed".to_owned(),
            _ => String::new(),
        };
        found.push(format!(
            "{:9.3} s  key {}: {name}: process {first} held the lock, process {second} got it, for {}{told}",
            overlap.from.as_secs_f64(),
            overlap.key,
            millis(overlap.until.saturating_sub(overlap.from)),
        ));
    }
    for fault in &verdict.tokens {
        let (before, token) = fault.tokens;
        found.push(format!(
            "{:9.3} s  key {}: token {token} after {before}",
            fault.at.as_secs_f64(),
            fault.key
        ));
    }
    for hang in &verdict.hangs {
        let late = millis(hang.late_by);
        found.push(format!(
            "{:9.3} s  key {}: no answer for {late} longer than the wait limit",
            hang.sent.as_secs_f64(),
            hang.key
        ));
    }
    found.extend(history.refused_after_calm.iter().map(|text| format!("after calm: {text}")));
    found.extend(history.misbehaved.iter().cloned());
    found
}

/// The command that repeats a run: with the seed, and without the directory of the report.
#[must_use]
pub fn command(words: &[&str], seed: u64) -> String {
    let report = words.iter().position(|word| *word == "--report").unwrap_or(words.len());
    let (before, after) = words.split_at(report);
    let kept: Vec<&str> = before.iter().chain(after.iter().skip(2)).copied().collect();
    let seed = if kept.contains(&"--seed") { String::new() } else { format!(" --seed {seed}") };
    format!("cargo run --release -p distlock-referee -- {}{seed}", kept.join(" "))
}

/// A duration with its unit.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

/// The maximum number of findings and of remaining keys on the page of text.
const SHOWN: usize = 12;

/// One page.
#[must_use]
pub fn text(hello: &Hello, command: &str, history: &History, verdict: &Verdict) -> String {
    let mut page = String::new();
    let mut row = |name: &str, value: String| {
        writeln!(page, "{name:<24}{value}").ok();
    };
    let yes = |ability: bool| if ability { "yes" } else { "no" };
    row("library", format!("{} {}", hello.name, hello.version));
    row(
        "abilities",
        format!("tokens {}, waits {}, renews {}", yes(hello.tokens), yes(hello.waits), yes(hello.renews)),
    );
    row("command", command.to_owned());
    row("sections", verdict.sections.to_string());
    let faults = FaultKind::ALL.map(|kind| {
        format!("{} {}", kind.name(), history.faults.iter().filter(|fault| fault.kind == kind).count())
    });
    row("faults", faults.join(", "));
    for (cause, name) in CAUSES {
        row(name, format!("{} (longest {})", verdict.overlaps_by(cause), millis(verdict.longest(cause))));
    }
    let told = verdict.overlaps.iter().filter(|overlap| overlap.told_released).count();
    row("release confirmed", format!("{told} of these overlaps"));
    row("token faults", verdict.tokens.len().to_string());
    row("hangs", verdict.hangs.len().to_string());
    row("refused after calm", history.refused_after_calm.len().to_string());
    row("lost, told", verdict.lost.to_string());
    row("errors", verdict.errors.to_string());
    row("longest recovery", millis(verdict.recovery));
    let hand_off = |share| verdict.hand_off(share).map_or_else(|| "none".to_owned(), millis);
    let count = verdict.hand_offs.len();
    row("hand-off p50, p99", format!("{}, {} (of {count})", hand_off(0.5), hand_off(0.99)));
    row("fairness (Jain)", format!("{:.3}", verdict.fairness));
    let left: Vec<&str> = history.residue.iter().take(SHOWN).map(String::as_str).collect();
    row("residue", format!("{} {}", history.residue.len(), left.join(", ")));
    let found = findings(history, verdict);
    for finding in found.iter().take(SHOWN) {
        writeln!(page, "{finding}").ok();
    }
    if found.len() > SHOWN {
        writeln!(page, "and {} more", found.len() - SHOWN).ok();
    }
    page
}

/// The report for programs. Times are in milliseconds.
#[must_use]
pub fn json(hello: &Hello, command: &str, history: &History, verdict: &Verdict) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
    let overlaps: serde_json::Map<String, Value> =
        CAUSES.iter().map(|(cause, name)| ((*name).to_owned(), verdict.overlaps_by(*cause).into())).collect();
    json!({
        "library": hello.name,
        "version": hello.version,
        "tokens": hello.tokens,
        "waits": hello.waits,
        "renews": hello.renews,
        "command": command,
        "sections": verdict.sections,
        "faults": history.faults.len(),
        "overlaps": overlaps,
        "token_faults": verdict.tokens.len(),
        "hangs": verdict.hangs.len(),
        "refused_after_calm": history.refused_after_calm.len(),
        "lost": verdict.lost,
        "errors": verdict.errors,
        "recovery_ms": ms(verdict.recovery),
        "hand_off_p50_ms": verdict.hand_off(0.5).map(ms),
        "hand_off_p99_ms": verdict.hand_off(0.99).map(ms),
        "fairness": verdict.fairness,
        "residue": history.residue,
        "findings": findings(history, verdict),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_repeats_the_run_with_its_seed_and_writes_no_report() {
        let start = "cargo run --release -p distlock-referee -- run redlock";
        assert_eq!(command(&["run", "redlock"], 7), format!("{start} --seed 7"));
        assert_eq!(command(&["run", "redlock", "--seed", "9"], 9), format!("{start} --seed 9"));
        let words = ["run", "redlock", "--report", "there", "--seconds", "5"];
        assert_eq!(command(&words, 1), format!("{start} --seconds 5 --seed 1"));
    }
}
