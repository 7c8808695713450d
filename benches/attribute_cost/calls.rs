//! One call on the memory backend: without a lock, with the library's functions, and with the attribute.

use std::alloc::System;
use std::hint::black_box;
use std::time::Instant;

use distlock::{LockError, LockManager, distributed_lock, key, with_manager};
use distlock_benches::table::Verdicts;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CALLS: u32 = 200_000;
const ROUNDS: usize = 5;

async fn bare(user_id: u64) -> Result<u64, LockError> {
    Ok(black_box(user_id) + 1)
}

async fn by_guard(manager: &LockManager, user_id: u64) -> Result<u64, LockError> {
    let guard = manager.lock(key!("order:<user_id>")).acquire().await?;
    let value = bare(user_id).await;
    guard.release().await?;
    value
}

async fn by_run(manager: &LockManager, user_id: u64) -> Result<u64, LockError> {
    manager.lock(key!("order:<user_id>")).run(async |_| bare(user_id).await).await?
}

#[distributed_lock(key = "order:<user_id>", manager = manager)]
async fn annotated(manager: &LockManager, user_id: u64) -> Result<u64, LockError> {
    bare(user_id).await
}

#[distributed_lock(key = "order:<user_id>")]
async fn annotated_in_scope(user_id: u64) -> Result<u64, LockError> {
    bare(user_id).await
}

#[distributed_lock(key = "order:<user_id>", manager = manager)]
fn annotated_on_a_thread(manager: &LockManager, user_id: u64) -> Result<u64, LockError> {
    Ok(black_box(user_id) + 1)
}

/// The cost of a call: the best of some rounds.
#[derive(Clone, Copy)]
struct Taken {
    nanos: f64,
    allocations: f64,
}

async fn timed(
    name: &str,
    mut call: impl AsyncFnMut(u64) -> Result<u64, LockError>,
) -> Result<Taken, LockError> {
    let mut best = f64::INFINITY;
    let mut allocations = 0.0;
    for _ in 0..ROUNDS {
        let region = Region::new(ALLOCATOR);
        let started = Instant::now();
        for user_id in 0..u64::from(CALLS) {
            black_box(call(user_id).await?);
        }
        best = best.min(started.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
        let made = u32::try_from(region.change().allocations).unwrap_or(u32::MAX);
        allocations = f64::from(made) / f64::from(CALLS);
    }
    println!("{name:<34} {best:>9.0} ns {allocations:>9.2} allocations");
    Ok(Taken { nanos: best, allocations })
}

pub(crate) fn measure() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let manager = LockManager::in_memory();
    runtime.block_on(async {
        println!("per call, memory backend, uncontended, best of {ROUNDS} rounds of {CALLS} calls");
        timed("body alone", async |id| bare(id).await).await?;
        let key = |id: u64| key!("order:<id>");
        timed("key!", async |id| key(id).map(|key| key.as_str().len() as u64)).await?;
        let guard = timed("acquire, body, release", async |id| by_guard(&manager, id).await).await?;
        let run = timed("run", async |id| by_run(&manager, id).await).await?;
        let own = timed("attribute", async |id| annotated(&manager, id).await).await?;
        let scoped = with_manager(manager.clone(), async {
            timed("attribute, manager of the scope", async |id| annotated_in_scope(id).await).await
        });
        let scoped = scoped.await?;
        let thread =
            timed("attribute on a function not async", async |id| annotated_on_a_thread(&manager, id)).await?;
        println!(
            "the wrapper beyond acquire and release: {:.0} ns (run {:.0} ns, scope {:.0} ns, thread {:.0} ns)",
            own.nanos - guard.nanos,
            run.nanos - guard.nanos,
            scoped.nanos - guard.nanos,
            thread.nanos - guard.nanos,
        );
        let (alone, annotated) = (size_of_val(&bare(1)), size_of_val(&annotated_in_scope(1)));
        println!("size of the future: body alone {alone} bytes, annotated {annotated} bytes");
        let mut verdicts = Verdicts::default();
        verdicts.at_most("allocations per lock, acquired and released", guard.allocations, 8.1);
        verdicts.at_most("allocations per annotated call", own.allocations, 8.1);
        verdicts.at_most("bytes that the attribute adds to a future", (annotated - alone) as f64, 300.0);
        verdicts.print("the memory backend", "cargo bench -p distlock-benches --bench attribute_cost -- run");
        Ok(())
    })
}
