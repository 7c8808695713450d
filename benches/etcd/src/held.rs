//! Many locks that are held and renewed.

use std::time::{Duration, Instant};

use crate::Result;
use crate::clock::cpu_time;
use crate::contenders::Distlock;
use crate::contenders::Locks;
use crate::server::EtcdServer;

const LOCKS: usize = 10_000;
const TTL: Duration = Duration::from_secs(10);
const SPAN: Duration = Duration::from_secs(30);

pub(crate) async fn measure(server: &EtcdServer) -> Result<()> {
    let Distlock(manager) = Distlock::connect(&server.address()).await?;
    let start = Instant::now();
    let mut acquiring = tokio::task::JoinSet::new();
    for number in 0..LOCKS {
        acquiring.spawn(manager.lock(format!("held/{number}")).ttl(TTL).wait(TTL * 6).acquire());
    }
    let mut guards = Vec::new();
    while let Some(guard) = acquiring.join_next().await {
        guards.push(guard??);
    }
    let acquired = start.elapsed();
    let (requests, ours, theirs) = (server.requests()?, cpu_time(), server.cpu_time()?);
    tokio::time::sleep(SPAN).await;
    let per_second = |n: f64| n / SPAN.as_secs_f64();
    let requests = per_second((server.requests()? - requests) as f64);
    let ours = per_second((cpu_time() - ours).as_secs_f64()) * 100.0;
    let theirs = per_second((server.cpu_time()? - theirs).as_secs_f64()) * 100.0;
    let lost = guards.iter().filter(|guard| !guard.is_held()).count();
    let start = Instant::now();
    for guard in guards {
        drop(guard);
    }
    manager.shutdown(Duration::from_secs(60)).await;
    println!("\n**{LOCKS} locks held for {SPAN:?}, ttl {TTL:?}**\n");
    println!(
        "| lost | acquired in | requests per s | CPU of the client | CPU of the server | released in |\n|-|-|-|-|-|-|"
    );
    println!(
        "| {lost} | {acquired:.1?} | {requests:.0} | {ours:.1} % | {theirs:.1} % | {:.1?} |",
        start.elapsed()
    );
    Ok(())
}
