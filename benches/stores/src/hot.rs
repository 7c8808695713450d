//! Many tasks of one process on one key, compared with a mutex of this process, which is the ideal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::locks::{Contender, Distlock, Locks, Place};
use crate::report::{Part, Row};

const CROWD: usize = 100;
const SPAN: Duration = Duration::from_secs(5);
const HOLD: Duration = Duration::from_millis(1);

pub(crate) async fn hot(place: &Place<'_>) -> Result<Part> {
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let ideal = crowd(move || {
        let mutex = mutex.clone();
        async move {
            let _held = mutex.lock().await;
            tokio::time::sleep(HOLD).await;
            Ok(())
        }
    });
    let ideal = ideal.await?;
    let before = place.server.settled_requests().await?;
    let ours = Distlock::connect(&place.ours, "hot").await?;
    let manager = ours.0.clone();
    let sections = crowd(move || {
        let ours = ours.clone();
        async move {
            let guard = ours.acquire("bench/hot").await?;
            tokio::time::sleep(HOLD).await;
            Distlock::release(guard).await
        }
    });
    let sections = sections.await?;
    manager.shutdown(SPAN).await;
    drop(manager);
    let requests = (place.server.settled_requests().await? - before) as f64 / sections as f64;
    let row = |who, sections: u64, requests| Row {
        who,
        figures: vec![
            ("sections per s", sections as f64 / SPAN.as_secs_f64()),
            ("time, × ideal", ideal as f64 / sections as f64),
            ("requests per section", requests),
        ],
    };
    let rows = vec![row("a mutex", ideal, 0.0), row(Contender::Distlock.name(), sections, requests)];
    let title = format!("{CROWD} tasks of one process on one key, hold {HOLD:?}");
    Ok(Part { place: place.name, title, rows })
}

async fn crowd<F, Fut>(section: F) -> Result<u64>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    let end = Instant::now() + SPAN;
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..CROWD {
        let section = section.clone();
        running.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                section().await?;
                count += 1;
            }
            Result::Ok(count)
        });
    }
    let mut sum = 0;
    while let Some(count) = running.join_next().await {
        sum += count??;
    }
    Ok(sum)
}
