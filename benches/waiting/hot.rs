//! One process: 64 tasks on one key, with empty sections. It is compared with the minimum for such a hand-off: tokio's
//! own mutex, which is fair, too, and has no state elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock_benches::contenders::{Distlock, Locks};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::median;
use distlock_benches::table::{Table, Verdicts, say};
use distlock_benches::{Result, join};
use serde_json::json;
use tokio::sync::Mutex;

const TASKS: u64 = 64;
const ROUNDS: usize = 5;

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say("one process, 64 tasks, one key, empty sections …");
    let span = length.pick(Duration::from_secs(1), Duration::from_millis(400));
    let locks = Distlock::connect(&server.url()).await?;
    let mutex = Arc::new(Mutex::new(()));
    let ours_once = move || {
        let locks = locks.clone();
        async move { Distlock::release(locks.acquire("bench:hot").await?).await }
    };
    let tokios_once = move || {
        let mutex = mutex.clone();
        async move {
            drop(mutex.lock().await);
            Ok(())
        }
    };
    let (mut ours, mut tokios) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(per_second(span, ours_once.clone()).await?);
        tokios.push(per_second(span, tokios_once.clone()).await?);
    }
    let mut ratios: Vec<f64> = ours.iter().zip(&tokios).map(|(ours, tokios)| ours / tokios).collect();
    let (ratio, ours, tokios) = (median(&mut ratios), median(&mut ours), median(&mut tokios));
    let mut table = Table::new(&["contender", "sections/s", "÷ tokio's mutex"]);
    table.row(["distlock".to_owned(), format!("{ours:.0}"), format!("{ratio:.2}")]);
    table.row(["tokio::sync::Mutex, in memory".to_owned(), format!("{tokios:.0}"), "1.00".to_owned()]);
    table.print("64 tasks of one process on one key, empty body");
    verdicts.keep("hot", json!({ "distlock": ours, "tokio_mutex": tokios, "ratio": ratio }));
    verdicts.at_least("64 tasks on one key, empty body: sections/s", ours, 1_000_000.0);
    Ok(())
}

async fn per_second<F>(span: Duration, section: impl Fn() -> F + Clone + Send + 'static) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send,
{
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let section = section.clone();
            tokio::spawn(async move {
                let mut sections = 0_u64;
                while start.elapsed() < span {
                    section().await?;
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
    Ok(sections as f64 / start.elapsed().as_secs_f64())
}
