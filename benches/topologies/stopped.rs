//! A quorum of five servers, one of which is stopped: it stays connected, and does not reply.

use std::time::Duration;

use distlock_benches::Result;
use distlock_benches::options::Length;
use distlock_benches::rounds::Contender;
use distlock_benches::stats::{median, quantile};
use distlock_benches::table::{Table, Verdicts, say};
use tokio::time::timeout;

use crate::quorum::Five;

/// The time limit for a section.
const LIMIT: Duration = Duration::from_secs(3);

/// The results of one contender in each round.
#[derive(Default)]
struct Record {
    name: String,
    /// The median with a stopped server, divided by that without.
    ratios: Vec<f64>,
    /// In nanoseconds, over all rounds.
    slowest: u64,
    /// The number of sections with a stopped server.
    tried: usize,
    /// How many of these had not ended after [`LIMIT`].
    given_up: usize,
}

/// The numbers of sections without and with a stopped server.
struct Share {
    well: usize,
    stopped: usize,
}

/// The time of each of `count` sections, without those that did not end.
async fn sections(contender: &Contender, count: usize) -> Result<Vec<u64>> {
    let mut samples = Vec::new();
    for number in 0..count {
        if let Ok(took) = timeout(LIMIT, contender.section(number)).await {
            samples.push(took?);
        }
    }
    Ok(samples)
}

impl Record {
    fn add(&mut self, mut well: Vec<u64>, mut stopped: Vec<u64>, share: &Share) {
        self.tried += share.stopped;
        self.given_up += share.stopped - stopped.len();
        if !stopped.is_empty() {
            self.ratios.push(quantile(&mut stopped, 0.5) as f64 / quantile(&mut well, 0.5) as f64);
            self.slowest = self.slowest.max(stopped.last().copied().unwrap_or(0));
        }
    }

    fn cells(&mut self) -> [String; 4] {
        let ratio = if self.ratios.is_empty() {
            "–".to_owned()
        } else {
            format!("{:.2}", median(&mut self.ratios))
        };
        let slowest = if self.given_up > 0 {
            format!("over {} s", LIMIT.as_secs())
        } else {
            format!("{:.1} ms", self.slowest as f64 / 1e6)
        };
        let given_up = format!("{} of {}", self.given_up, self.tried);
        [self.name.clone(), ratio, slowest, given_up]
    }
}

pub(super) async fn measure(five: &Five, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("a quorum of five servers, one of them stopped …");
    // With a stopped server, the other libraries need a second or more for each section.
    let shares =
        [Share { well: 400, stopped: 400 }, Share { well: 100, stopped: 2 }, Share { well: 10, stopped: 1 }];
    let mut records = <[Record; 3]>::default();
    for round in 0..length.pick(15, 3) {
        let contenders = [five.ours().await?, five.rslock(), five.redlock()];
        for ((contender, record), share) in contenders.iter().zip(&mut records).zip(&shares) {
            record.name = contender.name().to_owned();
            // Makes connections and loads scripts before the measurement.
            sections(contender, share.well / 10).await?;
            let well = sections(contender, share.well).await?;
            five.server(round).freeze();
            let stopped = sections(contender, share.stopped).await;
            five.server(round).thaw()?;
            record.add(well, stopped?, share);
        }
    }
    let ours = median(&mut records[0].ratios);
    let mut table = Table::new(&[
        "one of five servers stopped",
        "p50 ÷ own p50 with all five",
        "slowest",
        "not ended within 3 s",
    ]);
    for record in &mut records {
        table.row(record.cells());
    }
    table.print("A quorum of five servers, one stopped");
    verdicts.at_most("quorum with a stopped server: p50 ÷ with all five", ours, 1.15);
    Ok(())
}
