//! Many locks that are only held and renewed.

use std::time::{Duration, Instant};

use crate::Result;
use crate::clock::cpu_time;
use crate::locks::{Contender, Distlock, Locks, Place};
use crate::report::{Part, Row};

const LOCKS: usize = 10_000;
const TTL: Duration = Duration::from_secs(10);
const SPAN: Duration = Duration::from_secs(30);
/// A server that flushes to the disk cannot reply to ten thousand simultaneous requests in time.
const AT_ONCE: usize = 256;

pub(crate) async fn held(place: &Place<'_>) -> Result<Part> {
    let Distlock(manager) = Distlock::connect(&place.ours, "held").await?;
    let start = Instant::now();
    let mut acquiring = tokio::task::JoinSet::new();
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        if acquiring.len() >= AT_ONCE
            && let Some(guard) = acquiring.join_next().await
        {
            guards.push(guard??);
        }
        acquiring.spawn(manager.lock(format!("held/{number}")).ttl(TTL).wait(TTL * 6).acquire());
    }
    while let Some(guard) = acquiring.join_next().await {
        guards.push(guard??);
    }
    let acquired = start.elapsed();
    let server = place.server;
    let (requests, ours, theirs) = (server.requests().await?, cpu_time(), server.cpu_time()?);
    tokio::time::sleep(SPAN).await;
    let per_second = |n: f64| n / SPAN.as_secs_f64();
    let requests = per_second((server.requests().await? - requests) as f64);
    let ours = per_second((cpu_time() - ours).as_secs_f64()) * 100.0;
    let theirs = per_second((server.cpu_time()? - theirs).as_secs_f64()) * 100.0;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let start = Instant::now();
    drop(guards);
    manager.shutdown(Duration::from_secs(60)).await;
    let figures = vec![
        ("lost", lost as f64),
        ("requests per s", requests),
        ("CPU of the client %", ours),
        ("CPU of the server %", theirs),
        ("acquired in s", acquired.as_secs_f64()),
        ("released in s", start.elapsed().as_secs_f64()),
    ];
    let rows = vec![Row { who: Contender::Distlock.name(), figures }];
    Ok(Part { place: place.name, title: format!("{LOCKS} locks held for {SPAN:?}, ttl {TTL:?}"), rows })
}
