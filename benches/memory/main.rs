//! The memory of the client: a connected manager, a held lock, and a request that waits; and whether memory grows with
//! the number of sections and of cancelled waits. The figures are bytes of the heap that were allocated and not freed,
//! so they do not depend on the speed of the machine.
//!
//! `cargo bench -p distlock-benches --bench memory [-- --quick]`

use std::alloc::System;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use distlock::LockManager;
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::table::{Table, say};
use distlock_benches::{Result, join};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MANAGERS: usize = 20;
const HELD: usize = 100_000;
const WAITING: usize = 10_000;
/// The number of tasks that share the work.
const TASKS: usize = 64;
/// No lease is renewed meanwhile.
const TTL: Duration = Duration::from_secs(600);
const BUSY: &str = "bench:busy";

/// The bytes of the heap that are in use.
fn heap() -> i64 {
    let stats = ALLOCATOR.stats();
    let bytes = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    bytes(stats.bytes_allocated) - bytes(stats.bytes_deallocated)
}

fn each(bytes: i64, count: usize) -> String {
    (bytes / i64::try_from(count).unwrap_or(1)).to_string()
}

#[tokio::main]
async fn main() -> Result<()> {
    let length = Length::from_args();
    let server = Server::start();
    // The first manager initializes what all of them share.
    let (manager, other) = (connected(&server).await?, connected(&server).await?);
    let busy = other.lock(BUSY).ttl(TTL).acquire().await?;

    let mut table = Table::new(&["what", "bytes"]);
    let before = heap();
    let mut managers = Vec::with_capacity(MANAGERS);
    for _ in 0..MANAGERS {
        managers.push(connected(&server).await?);
    }
    table.row(["a connected manager".to_owned(), each(heap() - before, MANAGERS)]);
    drop(managers);

    let before = heap();
    let mut held = Vec::with_capacity(HELD);
    for i in 0..HELD {
        held.push(manager.lock(format!("bench:held:{i}")).ttl(TTL).acquire().await?);
    }
    table.row([format!("a held lock, {HELD} of them"), each(heap() - before, HELD)]);
    drop(held);
    settle(&manager).await?;

    let mut theirs = Vec::with_capacity(WAITING);
    for i in 0..WAITING {
        theirs.push(other.lock(format!("{BUSY}:{i}")).ttl(TTL).acquire().await?);
    }
    let own_keys = waiting(&manager, |i| format!("{BUSY}:{i}")).await?;
    table.row([format!("a request that waits, {WAITING} of them for as many keys"), each(own_keys, WAITING)]);
    let one_key = waiting(&manager, |_| BUSY.to_owned()).await?;
    table.row([format!("a request that waits, {WAITING} of them for one key"), each(one_key, WAITING)]);
    drop(theirs);
    settle(&other).await?;
    table.print("Heap of the client on Redis");

    let (sections, waits) = (length.pick(10_000_000, 200_000), length.pick(1_000_000, 20_000));
    let mut growth = Table::new(&["what", "count", "growth of the heap since a tenth of them"]);
    for (work, count) in [(Work::Section, sections), (Work::CancelledWait, waits)] {
        work.run(&manager, 0..count / 10).await?;
        let before = heap();
        work.run(&manager, count / 10..count).await?;
        growth.row([work.name().to_owned(), count.to_string(), (heap() - before).to_string()]);
    }
    growth.print("Growth");
    busy.release().await?;
    say(format!(
        "\nMachine: {}. Repeat with: `cargo bench -p distlock-benches --bench memory`.",
        server.machine()?
    ));
    Ok(())
}

async fn connected(server: &Server) -> Result<LockManager> {
    let manager = LockManager::builder().url(&server.url()).connect().await?;
    settle(&manager).await?;
    Ok(manager)
}

/// The earlier commands of the manager are done when this returns, because they share its connection.
async fn settle(manager: &LockManager) -> Result<()> {
    for _ in 0..3 {
        manager.lock("bench:settle").acquire().await?.release().await?;
    }
    Ok(())
}

/// The heap that requests for these keys need while they wait, without the memory of their tasks.
async fn waiting(manager: &LockManager, key: impl Fn(usize) -> String) -> Result<i64> {
    let before = heap();
    let mut requests = Vec::with_capacity(WAITING);
    for i in 0..WAITING {
        let mut request = Box::pin(manager.lock(key(i)).wait_forever().acquire());
        tokio::task::unconstrained(std::future::poll_fn(|cx| {
            assert!(request.as_mut().poll(cx).is_pending(), "another process holds it");
            std::task::Poll::Ready(())
        }))
        .await;
        requests.push(request);
    }
    settle(manager).await?;
    let needed = heap() - before;
    drop(requests);
    settle(manager).await?;
    Ok(needed)
}

#[derive(Clone, Copy)]
enum Work {
    /// Of a key that is never used again.
    Section,
    /// A request for a lock that another process holds is dropped when it has begun to wait.
    CancelledWait,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Section => "sections of distinct keys",
            Work::CancelledWait => "cancelled waits",
        }
    }

    async fn once(self, manager: &LockManager, number: usize) -> Result<()> {
        match self {
            Work::Section => {
                manager.lock(format!("bench:{number}")).acquire().await?.release().await?;
            }
            Work::CancelledWait => {
                let mut request = pin!(manager.lock(BUSY).wait_forever().acquire());
                let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "another process holds it");
                // Waits for a reply, so that the commands do not collect.
                manager.lock(format!("bench:{number}")).acquire().await?.release().await?;
            }
        }
        Ok(())
    }

    async fn run(self, manager: &LockManager, numbers: std::ops::Range<usize>) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(numbers.start));
        let mut tasks = Vec::with_capacity(TASKS);
        for _ in 0..TASKS {
            let (manager, next, end) = (manager.clone(), next.clone(), numbers.end);
            tasks.push(tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok(());
                    }
                    self.once(&manager, number).await?;
                }
            }));
        }
        for task in tasks {
            join(task).await?;
        }
        settle(manager).await
    }
}
