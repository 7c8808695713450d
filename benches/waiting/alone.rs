//! An uncontended lock: the figure of the bench `foundation` again, in a short run.

use distlock_benches::Result;
use distlock_benches::clock::monotonic;
use distlock_benches::contenders::{Distlock, Locks, Raw};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::{median, quantile};
use distlock_benches::table::{Verdicts, say};

async fn p50<L: Locks>(locks: &L, round: u32) -> Result<f64> {
    let mut samples = Vec::new();
    for i in 0..1_000 {
        let key = format!("bench:alone:{round}:{i}");
        let start = monotonic();
        L::release(locks.acquire(&key).await?).await?;
        samples.push(monotonic() - start);
    }
    Ok(quantile(&mut samples, 0.5) as f64)
}

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("uncontended …");
    let ours = Distlock::connect(&server.url()).await?;
    let raw = Raw::connect(&server.url()).await?;
    let mut ratios = Vec::new();
    for round in 0..length.pick(20, 8) {
        let base = p50(&raw, round).await?;
        ratios.push(p50(&ours, round).await? / base);
    }
    verdicts.at_most("uncontended: p50 ÷ raw", median(&mut ratios), 1.15);
    Ok(())
}
