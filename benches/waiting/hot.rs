//! One process: 64 tasks on one key, nothing to do inside.

use std::time::{Duration, Instant};

use distlock_benches::contenders::{Distlock, Locks};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::table::{Verdicts, say};
use distlock_benches::{Result, join};

const TASKS: u64 = 64;

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("one process, 64 tasks, one key, empty sections …");
    let span = length.pick(Duration::from_secs(5), Duration::from_secs(2));
    let locks = Distlock::connect(&server.url()).await?;
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let locks = locks.clone();
            tokio::spawn(async move {
                let mut sections = 0_u64;
                while start.elapsed() < span {
                    Distlock::release(locks.acquire("bench:hot").await?).await?;
                    sections += 1;
                }
                Result::Ok(sections)
            })
        })
        .collect();
    let mut sections = 0;
    for task in tasks {
        sections += join(task).await?;
    }
    let per_second = sections as f64 / start.elapsed().as_secs_f64();
    verdicts.at_least("64 tasks on one key, empty body: sections/s", per_second, 1_000_000.0);
    Ok(())
}
