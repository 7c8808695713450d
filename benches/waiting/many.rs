//! One process that holds a hundred thousand locks.

use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use distlock::{Guard, LockManager};
use distlock_benches::clock::{cpu_time, resident};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::table::{Verdicts, say};
use distlock_benches::{Result, join};
use tokio::sync::Semaphore;

/// The first argument of the process that holds the locks. It is separate, so that its memory can be measured.
pub(super) const COMMAND: &str = "--hold-many";

const LOCKS: usize = 100_000;
const TTL: Duration = Duration::from_secs(30);
/// The number of locks that are acquired at the same time.
const AT_ONCE: usize = 64;

pub(super) fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    let span = length.pick(Duration::from_secs(180), Duration::from_secs(11));
    say(format!("{LOCKS} locks held for {} s, ttl {} s …", span.as_secs(), TTL.as_secs()));
    let output = Command::new(std::env::current_exe()?)
        .args([COMMAND, &server.url(), &span.as_secs().to_string()])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("the process that holds many locks failed".into());
    }
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || figures.next().ok_or("the process that holds many locks said too little");
    let what = |figure: &str| format!("{LOCKS} locks held {} s: {figure}", span.as_secs());
    verdicts.at_most(what("lost"), next()??, 0.0);
    verdicts.at_most(what("CPU, share of a core"), next()??, 0.15);
    verdicts.at_most(what("memory, bytes per lock"), next()??, 1_024.0);
    Ok(())
}

/// The process: prints locks lost, CPU share, bytes per lock.
pub(super) fn run(mut args: impl Iterator<Item = String>) -> Result<()> {
    let url = args.next().ok_or("no URL")?;
    let span = Duration::from_secs(args.next().ok_or("no time")?.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (guards, manager, empty) = runtime.block_on(async {
        let manager = LockManager::builder().url(&url).default_ttl(TTL).connect().await?;
        manager.lock("bench:warm").acquire().await?.release().await?;
        let empty = resident()?;
        Result::Ok((acquire_all(&manager).await?, manager, empty))
    })?;
    let (start, cpu) = (Instant::now(), cpu_time());
    thread::sleep(span);
    let share = (cpu_time() - cpu).as_secs_f64() / start.elapsed().as_secs_f64();
    let bytes = resident()?.saturating_sub(empty) as f64 / LOCKS as f64;
    let mut lost = guards.iter().filter(|guard| !guard.is_held()).count();
    lost += runtime.block_on(foreign(&url))?;
    say(format!("{lost} {share} {bytes}"));
    // The release of this many locks is not measured.
    drop((guards, manager));
    Ok(())
}

async fn acquire_all(manager: &LockManager) -> Result<Vec<Guard>> {
    let gate = Arc::new(Semaphore::new(AT_ONCE));
    let mut guards = Vec::with_capacity(LOCKS);
    let mut tasks = std::collections::VecDeque::with_capacity(AT_ONCE);
    for i in 0..LOCKS {
        let (manager, permit) = (manager.clone(), gate.clone().acquire_owned().await?);
        tasks.push_back(tokio::spawn(async move {
            let guard = manager.lock(format!("bench:many:{i}")).acquire().await?;
            drop(permit);
            Result::Ok(guard)
        }));
        if tasks.len() >= AT_ONCE
            && let Some(task) = tasks.pop_front()
        {
            guards.push(join(task).await?);
        }
    }
    for task in tasks {
        guards.push(join(task).await?);
    }
    Ok(guards)
}

/// The number of locks of a sample that the server does not have.
async fn foreign(url: &str) -> Result<usize> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut missing = 0;
    for i in (0..LOCKS).step_by(997) {
        let there: bool =
            redis::cmd("EXISTS").arg(format!("bench:many:{i}")).query_async(&mut connection).await?;
        missing += usize::from(!there);
    }
    Ok(missing)
}
