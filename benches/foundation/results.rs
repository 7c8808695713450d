//! The results, as tables, verdicts and JSON.

use distlock_benches::Result;
use distlock_benches::cores::Cores;
use distlock_benches::options::Length;
use distlock_benches::results;
use distlock_benches::stats::{median, micros};
use distlock_benches::table::{Table, Verdicts, say};
use serde_json::{Value, json};

use crate::load::{Figures, Shape};
use crate::sections::Contender;

/// One of the figures.
type Of = fn(&Figures) -> f64;

/// All rounds of one shape. In each round, the figures of all contenders in their order.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) shape: Shape,
    pub(crate) contenders: &'static [Contender],
    pub(crate) rounds: Vec<Vec<Figures>>,
}

/// The targets of a row.
struct Targets {
    per_second: f64,
    client_cpu: f64,
}

impl Row {
    fn targets(&self) -> Targets {
        let (per_second, client_cpu) = match self.shape.tasks {
            1 => (0.9, 1.4),
            2..=16 => (0.95, 1.1),
            _ => (1.0, 1.1),
        };
        Targets { per_second, client_cpu }
    }

    fn of(&self, contender: Contender, of: Of) -> Vec<f64> {
        let at = self.contenders.iter().position(|one| *one == contender).unwrap_or(0);
        self.rounds.iter().filter_map(|round| round.get(at)).map(of).collect()
    }

    fn median(&self, contender: Contender, of: Of) -> f64 {
        median(&mut self.of(contender, of))
    }

    /// The raw client with its better setting in this row, that is, with the higher throughput.
    fn raw(&self) -> Contender {
        let throughput = |contender| self.median(contender, |f| f.per_second);
        let (defaults, no_delay) = (Contender::RawDefaults, Contender::RawNoDelay);
        if throughput(defaults) > throughput(no_delay) { defaults } else { no_delay }
    }

    /// The median over the rounds of the ratio within a round.
    fn ratio(&self, contender: Contender, base: Contender, of: Of) -> f64 {
        let pairs = self.of(contender, of).into_iter().zip(self.of(base, of));
        median(&mut pairs.map(|(one, base)| one / base).collect::<Vec<_>>())
    }

    fn print(&self) {
        let raw = self.raw();
        let mut table = Table::new(&[
            "contender",
            "locks/s",
            "÷ raw",
            "p50",
            "÷ raw",
            "p99",
            "client CPU per lock",
            "÷ raw",
            "server CPU per lock",
            "÷ raw",
        ]);
        for one in self.contenders.iter().copied() {
            let ratio = |of: Of| format!("{:.2}", self.ratio(one, raw, of));
            let fine = |of: Of| format!("{:.1} µs", self.median(one, of) / 1_000.0);
            table.row([
                one.name().to_owned(),
                format!("{:.0}", self.median(one, |f| f.per_second)),
                ratio(|f| f.per_second),
                micros(self.median(one, |f| f.p50)),
                ratio(|f| f.p50),
                micros(self.median(one, |f| f.p99)),
                fine(|f| f.client_cpu),
                ratio(|f| f.client_cpu),
                fine(|f| f.server_cpu),
                ratio(|f| f.server_cpu),
            ]);
        }
        table.print(&format!(
            "{}, distinct keys (raw at its better setting: {})",
            self.shape.name(),
            raw.name()
        ));
    }

    fn judge(&self, verdicts: &mut Verdicts) {
        if self.shape.is_far() {
            return self.judge_far(verdicts);
        }
        let (raw, targets) = (self.raw(), self.targets());
        for one in Contender::OURS {
            let what = |figure: &str| format!("{}, {}: {figure}", self.shape.name(), one.name());
            let ratio = |of: Of| self.ratio(one, raw, of);
            verdicts.at_least(what("throughput ÷ raw"), ratio(|f| f.per_second), targets.per_second);
            if self.shape.tasks == 1 {
                verdicts.at_most(what("p50 ÷ raw"), ratio(|f| f.p50), 1.05);
            }
            verdicts.at_most(what("client CPU ÷ raw"), ratio(|f| f.client_cpu), targets.client_cpu);
            verdicts.at_most(what("server CPU ÷ raw"), ratio(|f| f.server_cpu), 1.25);
        }
        if self.shape.tasks == 1 {
            let what = format!("{}, {}: p50 ÷ raw", self.shape.name(), Contender::InBackground.name());
            verdicts.at_most(what, self.ratio(Contender::InBackground, raw, |f| f.p50), 0.6);
        }
        let ours = |peer| self.ratio(Contender::Distlock, peer, |f| f.per_second);
        let least = Contender::PEERS.into_iter().map(ours).fold(f64::INFINITY, f64::min);
        verdicts.at_least(format!("{}: throughput ÷ best peer", self.shape.name()), least, 1.0);
    }

    /// No request may wait for the reply to another one.
    fn judge_far(&self, verdicts: &mut Verdicts) {
        let raw = self.raw();
        for one in Contender::OURS {
            let what = |figure: &str| format!("{}, {}: {figure} ÷ raw", self.shape.name(), one.name());
            verdicts.at_least(what("throughput"), self.ratio(one, raw, |f| f.per_second), 1.0 / 1.02);
            verdicts.at_most(what("p50"), self.ratio(one, raw, |f| f.p50), 1.02);
            verdicts.at_most(what("p99"), self.ratio(one, raw, |f| f.p99), 1.02);
        }
    }

    fn to_json(&self) -> Value {
        let raw = self.raw();
        let contender = |one: Contender| {
            let figure =
                |of: Of| json!({ "median": self.median(one, of), "to_raw": self.ratio(one, raw, of) });
            json!({
                "name": one.name(),
                "locks_per_second": figure(|f| f.per_second),
                "p50_ns": figure(|f| f.p50),
                "p99_ns": figure(|f| f.p99),
                "client_cpu_ns": figure(|f| f.client_cpu),
                "server_cpu_ns": figure(|f| f.server_cpu),
            })
        };
        json!({
            "tasks": self.shape.tasks,
            "raw": raw.name(),
            "each_way_us": u64::try_from(self.shape.each_way.as_micros()).unwrap_or(u64::MAX),
            "contenders": self.contenders.iter().copied().map(contender).collect::<Vec<_>>(),
        })
    }
}

/// `readers` has the rows of the part of that name.
pub(crate) fn report(rows: &[Row], readers: &[Row], machine: &str, length: Length) -> Result<()> {
    let mut verdicts = Verdicts::default();
    for row in rows {
        row.print();
        row.judge(&mut verdicts);
    }
    readers.iter().for_each(Row::print);
    let quick = length.pick("", " -- --quick");
    let command = format!("cargo bench -p distlock-benches --bench foundation{quick}");
    verdicts.print(machine, &command);
    let rounds = rows.iter().chain(readers).next().map_or(0, |row| row.rounds.len());
    let of = |which: fn(Shape) -> bool| {
        rows.iter().filter(|row| which(row.shape)).map(Row::to_json).collect::<Vec<_>>()
    };
    let json = json!({
        "bench": "foundation",
        "command": command,
        "machine": machine,
        "rounds": rounds,
        "rows": of(|shape| shape.cores != Cores::Shared && !shape.is_far()),
        "one_core": of(|shape| shape.cores == Cores::Shared),
        "links": of(Shape::is_far),
        "readers": readers.iter().map(Row::to_json).collect::<Vec<_>>(),
    });
    say(format!("Results: {}", results::write("foundation", &json)?.display()));
    Ok(())
}
