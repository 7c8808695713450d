//! Several processes on one key, for each contender.

use std::slice;
use std::time::Duration;

use distlock_benches::contenders::{AsyncRedisLock, Distlock, Locks, Raw, Rlock, Rslock, WithoutGaps};
use distlock_benches::options::Length;
use distlock_benches::processes::{Plan, run};
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, Verdicts, say};
use distlock_benches::{Result, floor};
use serde_json::json;

pub(super) fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    let span = length.pick(Duration::from_secs(8), Duration::from_secs(1));
    let mut table = Table::new(&[
        "processes on one key",
        "commands per section",
        "hand-off p50",
        "p99",
        "in PINGs: p50",
        "p99",
        "in rapid PINGs: p50",
        "p50 ÷ floor",
        "longest gap",
        "longest wait ÷ mean",
        "fairness",
        "sections/s",
    ]);
    let runs = [
        (8, Distlock::NAME),
        (32, Distlock::NAME),
        (8, Raw::NAME),
        (8, Rslock::NAME),
        (8, WithoutGaps::NAME),
        (32, WithoutGaps::NAME),
        (8, Rlock::NAME),
        (8, AsyncRedisLock::NAME),
    ];
    let floor = floor::measure(server, length.pick(4_000, 1_000))?;
    say(format!(
        "one process publishes, another hears, blocking sockets: {} (p99 {})",
        micros(floor.p50 as f64),
        micros(floor.p99 as f64)
    ));
    let mut rows = Vec::new();
    for (processes, name) in runs.into_iter().take(length.pick(runs.len(), 5)) {
        let f = run(&Plan { url: &server.url(), servers: slice::from_ref(server), name, processes, span })?;
        say(format!(
            "{processes} processes on one key, {name}: {:.2} commands per section, hand-off {:.1} PINGs of {}",
            f.commands,
            f.p50_in_pings(),
            micros(f.ping.paced as f64)
        ));
        let ms = |nanos: u64| format!("{:.3} ms", nanos as f64 / 1e6);
        table.row([
            format!("{processes}, {name}"),
            format!("{:.2}", f.commands),
            ms(f.p50),
            ms(f.p99),
            format!("{:.1}", f.p50_in_pings()),
            format!("{:.1}", f.p99_in_pings()),
            format!("{:.1}", f.p50 as f64 / f.ping.rapid as f64),
            format!("{:.1}", f.p50 as f64 / floor.p50 as f64),
            ms(f.longest_gap),
            format!("{:.1}", f.longest_wait_to_mean),
            format!("{:.3}", f.fairness),
            format!("{:.0}", f.sections_per_second),
        ]);
        rows.push(json!({
            "name": name,
            "processes": processes,
            "p50_ns": f.p50,
            "p99_ns": f.p99,
            "commands_per_section": f.commands,
        }));
        if name == Distlock::NAME || name == WithoutGaps::NAME {
            let what = |figure: &str| format!("{processes} processes, {name}: {figure}");
            verdicts.at_most(what("commands per section"), f.commands, 2.3);
            verdicts.at_most(what("hand-off p50 ÷ PING"), f.p50_in_pings(), 2.0);
            if processes == 8 {
                let in_floors = f.p50 as f64 / floor.p50 as f64;
                verdicts.at_most(what("hand-off p50 ÷ floor"), in_floors, 2.0);
                verdicts.at_most(what("hand-off p99 ÷ PING"), f.p99_in_pings(), 15.0);
            }
            verdicts.at_most(what("longest wait ÷ mean"), f.longest_wait_to_mean, 3.0);
            verdicts.at_least(what("fairness (Jain)"), f.fairness, 0.99);
        }
    }
    let floor = json!({ "p50_ns": floor.p50, "p99_ns": floor.p99 });
    verdicts.keep("processes", json!({ "floor": floor, "rows": rows }));
    table.print("Several processes, one key, hold 0.5 ms, think 1 ms");
    Ok(())
}
