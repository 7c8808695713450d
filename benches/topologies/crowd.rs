//! Many processes on one key: a quorum of five servers, compared with one server.

use std::slice;
use std::time::Duration;

use distlock_benches::Result;
use distlock_benches::contenders::{Distlock, Locks};
use distlock_benches::options::Length;
use distlock_benches::processes::{Figures, Plan, run};
use distlock_benches::server::Server;
use distlock_benches::stats::median;
use distlock_benches::table::{Table, Verdicts, say};

use crate::quorum::Five;

const PROCESSES: usize = 20;

/// The median over the rounds of one contender's figure.
fn median_of(rounds: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    median(&mut rounds.iter().map(figure).collect::<Vec<_>>())
}

/// The median over the rounds of one figure of the quorum, divided by that of one server in the same round.
fn ratio(quorum: &[Figures], alone: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    let pairs = quorum.iter().zip(alone);
    median(&mut pairs.map(|(five, one)| figure(five) / figure(one)).collect::<Vec<_>>())
}

pub(super) fn measure(five: &Five, alone: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say(format!("{PROCESSES} processes on one key, one server and a quorum of five in turn …"));
    let span = length.pick(Duration::from_secs(6), Duration::from_secs(2));
    let plan = |url, servers| Plan { url, servers, name: Distlock::NAME, processes: PROCESSES, span };
    let (one_url, five_url) = (alone.url(), five.url());
    let (mut one, mut quorum) = (Vec::new(), Vec::new());
    for _ in 0..length.pick(3, 1) {
        one.push(run(&plan(&one_url, slice::from_ref(alone)))?);
        quorum.push(run(&plan(&five_url, five.servers()))?);
    }
    let mut table = Table::new(&[
        "20 processes on one key",
        "commands per section, all servers",
        "sections/s",
        "wait p99",
        "hand-off p50",
        "p99",
        "fairness (Jain)",
    ]);
    let ms = |nanos: f64| format!("{:.2} ms", nanos / 1e6);
    for (name, rounds) in [("one server", &one), ("quorum of five", &quorum)] {
        table.row([
            name.to_owned(),
            format!("{:.2}", median_of(rounds, |f| f.commands)),
            format!("{:.0}", median_of(rounds, |f| f.sections_per_second)),
            ms(median_of(rounds, |f| f.wait_p99 as f64)),
            ms(median_of(rounds, |f| f.p50 as f64)),
            ms(median_of(rounds, |f| f.p99 as f64)),
            format!("{:.3}", median_of(rounds, |f| f.fairness)),
        ]);
    }
    let throughput = ratio(&quorum, &one, |f| f.sections_per_second);
    let wait = ratio(&quorum, &one, |f| f.wait_p99 as f64);
    table.row([
        "quorum ÷ one server".to_owned(),
        format!("{:.2}", ratio(&quorum, &one, |f| f.commands)),
        format!("{throughput:.2}"),
        format!("{wait:.2}"),
        format!("{:.2}", ratio(&quorum, &one, |f| f.p50 as f64)),
        format!("{:.2}", ratio(&quorum, &one, |f| f.p99 as f64)),
        String::new(),
    ]);
    table.print("Many processes on one key, hold 0.5 ms, think 1 ms");
    let what = |figure: &str| format!("quorum of five, {PROCESSES} processes: {figure}");
    verdicts.at_most(what("commands per section"), median_of(&quorum, |f| f.commands), 18.0);
    verdicts.at_least(what("fairness (Jain)"), median_of(&quorum, |f| f.fairness), 0.99);
    verdicts.at_most(what("wait p99 ÷ one server"), wait, 2.0);
    verdicts.at_least(what("sections/s ÷ one server"), throughput, 0.8);
    Ok(())
}
