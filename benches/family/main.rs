//! The cost of shared and limited locks, and of locks on several keys, compared with other libraries in one run.
//!
//! `cargo bench -p distlock-benches --bench family [-- [--quick] [shared] [limited] [keys] [alone]]`
//!
//! Every task acquires the lock repeatedly, and holds it for 2 ms. The tasks share one manager, or use four managers
//! (each with its own connections, queue and thread, as in four processes).
//!
//! - **Total ÷ ideal**: the ideal is the time of the same tasks with tokio's own locks, which are fair and need no
//!   server, measured just before. **Longest wait**: from the request to the lock, divided in the same way. A lock that
//!   its last holder acquires again while the others sleep has a good total, but long waits.
//! - **Hand-off**: from the instant before the release that makes room is sent, to the instant at which the next holder
//!   has the lock. Only holders that had asked before that release count. With n holders at once, the k-th release
//!   makes room for entry number n + k. A writer gets room by the last release before it enters, and a reader by the
//!   release of the last writer.
//! - **Commands**: all commands of clients for each section, in a separate run.

mod alone;
mod contended;
mod members;
mod record;

use std::time::Duration;

use contended::{Crowd, Figures};
use distlock_benches::Result;
use distlock_benches::options::{Length, Parts};
use distlock_benches::processes::ping;
use distlock_benches::server::Server;
use distlock_benches::stats::micros;
use distlock_benches::table::{Table, Verdicts, say};
use members::{Ask, AsyncRedisLock, Distlock, DistributedLock, Member, Rlock};
use tokio::runtime::Runtime;

/// The subject of one table.
struct Part {
    name: &'static str,
    title: &'static str,
    asks: &'static [(Ask, usize)],
}

const PARTS: [Part; 3] = [
    Part {
        name: "shared",
        title: "32 readers and 2 writers on one key",
        asks: &[(Ask::Read, 32), (Ask::Write, 2)],
    },
    Part {
        name: "limited",
        title: "64 tasks on one key, 8 may hold it at once",
        asks: &[(Ask::Limited(8), 64)],
    },
    Part { name: "keys", title: "20 tasks, each takes the same two keys at once", asks: &[(Ask::Both, 20)] },
];

/// One table.
struct Report<'a> {
    server: &'a Server,
    runtime: &'a Runtime,
    crowd: Crowd,
    length: Length,
    /// The round trip of a PING, nanoseconds.
    ping: f64,
    table: Table,
}

impl Report<'_> {
    fn run<M: Member>(&self, managers: usize, times: usize) -> Result<Option<Figures>> {
        let limit = self.length.pick(Duration::from_secs(60), Duration::from_secs(5));
        self.runtime.block_on(contended::measure::<M>(self.server, managers, self.crowd, times, limit))
    }

    fn add<M: Member>(&mut self, managers: usize, times: usize) -> Result<Option<Figures>> {
        let name =
            if managers == 1 { M::NAME.to_owned() } else { format!("{}, {managers} managers", M::NAME) };
        if !self.crowd.asks.iter().all(|(ask, _)| M::offers(*ask)) {
            self.table.row([name.as_str(), "–"]);
            return Ok(None);
        }
        let Some(figures) = self.run::<M>(managers, times)? else {
            self.table.row([name.as_str(), "not ended in time"]);
            return Ok(None);
        };
        self.table.row([
            name,
            format!("{:.2}", figures.total),
            format!("{:.2}", figures.commands),
            micros(figures.hand_off as f64),
            format!("{:.1}", figures.hand_off as f64 / self.ping),
            format!("{:.1}", figures.longest_wait),
            figures.intrusions.to_string(),
        ]);
        Ok(Some(figures))
    }
}

fn main() -> Result<()> {
    let (length, parts) = (Length::from_args(), Parts::from_args());
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut verdicts = Verdicts::default();
    for Part { name: part, title, asks } in PARTS.into_iter().filter(|part| parts.wants(part.name)) {
        say(format!("{title} …"));
        let sections = length.pick(40, 10);
        let head =
            [title, "total ÷ ideal", "commands per section", "hand-off p50", "in PINGs", "longest wait"];
        let mut head = head.to_vec();
        head.push("entered while full");
        let mut report = Report {
            server: &server,
            runtime: &runtime,
            crowd: Crowd { asks, sections },
            length,
            ping: ping(&server)?.paced as f64,
            table: Table::new(&[
                title,
                "total ÷ ideal",
                "commands per section",
                "hand-off p50",
                "in PINGs",
                "longest wait ÷ ideal",
                "entered while full",
            ]),
        };
        let times = length.pick(5, 1);
        for managers in [1, 4] {
            if let Some(figures) = report.add::<Distlock>(managers, times)? {
                let what = |figure: &str| format!("{title}, managers: {managers}, {figure}");
                if managers == 1 {
                    verdicts.at_most(what("total ÷ ideal"), figures.total, 1.10);
                }
                if part == "shared" && managers > 1 {
                    verdicts.at_most(what("total ÷ ideal"), figures.total, 1.15);
                    verdicts.at_most(what("longest wait ÷ ideal"), figures.longest_wait, 3.0);
                }
                verdicts.at_most(what("commands per section"), figures.commands, 2.3);
                verdicts.at_most(what("entered while full"), figures.intrusions as f64, 0.0);
            }
        }
        report.add::<Rlock>(1, 1)?;
        report.add::<DistributedLock>(1, 1)?;
        report.add::<AsyncRedisLock>(1, 1)?;
        report.table.print(&format!("{title}, {sections} times each, hold 2 ms"));
    }
    if parts.wants("alone") {
        runtime.block_on(alone::measure(&server, length))?;
    }
    let quick = length.pick("", " -- --quick");
    verdicts.print(&server.machine()?, &format!("cargo bench -p distlock-benches --bench family{quick}"));
    Ok(())
}
