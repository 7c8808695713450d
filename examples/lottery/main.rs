//! A lottery: one draw per user and day, whatever the user's fingers do.
//!
//! ```text
//! cargo run --release --example lottery                              embedded, nothing to install
//! cargo run --release --example lottery -- --url redis://127.0.0.1/  through Redis
//! ```
//!
//! The function to copy is `Lottery::draw`.

use std::{
    collections::BTreeMap,
    fmt,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use clap::Parser;
use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Comparison, Side, Store, count, instances, run, table};
use tokio::task::JoinSet;

/// A lottery: one draw per user and day, whatever the user's fingers do
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Users
    #[arg(long, default_value = "20", value_parser = count())]
    users: usize,
    /// How often each of them taps the button
    #[arg(long, default_value = "5", value_parser = count())]
    taps: usize,
}

const INSTANCES: usize = 4;

#[derive(Debug, thiserror::Error)]
enum DrawError {
    #[error("come back tomorrow")]
    DrawnAlready,
    #[error("the wheel is still turning")]
    DrawingNow,
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Days since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Day(u64);

impl Day {
    fn today() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs() / (24 * 3600))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One instance of the lottery.
#[derive(Debug, Clone)]
struct Lottery {
    locks: LockManager,
    draws: Draws,
}

impl Lottery {
    /// Draws once. A second tap while the wheel turns does not wait: it is answered at once.
    #[distributed_lock(
        key = "lottery:<user>:<day>",
        ttl = "10s",
        wait = "0s",
        on_busy = Err(DrawError::DrawingNow),
        manager = self.locks
    )]
    async fn draw(&self, user: u64, day: Day) -> Result<(), DrawError> {
        self.draw_unguarded(user, day).await
    }

    /// The same without the lock: every tap before the wheel stops finds that nothing was drawn.
    async fn draw_unguarded(&self, user: u64, day: Day) -> Result<(), DrawError> {
        if self.draws.of(user, day) > 0 {
            return Err(DrawError::DrawnAlready);
        }
        turn_the_wheel().await;
        self.draws.add(user, day);
        Ok(())
    }
}

async fn turn_the_wheel() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Stands for a table in a database.
#[derive(Debug, Clone, Default)]
struct Draws(Arc<Mutex<BTreeMap<(u64, Day), usize>>>);

impl Draws {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<(u64, Day), usize>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn of(&self, user: u64, day: Day) -> usize {
        self.with(|draws| draws.get(&(user, day)).copied().unwrap_or(0))
    }

    fn add(&self, user: u64, day: Day) {
        self.with(|draws| *draws.entry((user, day)).or_default() += 1);
    }

    fn most(&self) -> usize {
        self.with(|draws| draws.values().max().copied().unwrap_or(0))
    }
}

#[derive(Debug, Default)]
struct Taps {
    draws: usize,
    refused: usize,
    busy: usize,
    errors: usize,
    most: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    run(compare).await
}

async fn compare(options: Options) -> Result<Comparison, AnyError> {
    let Options { store, users, taps } = options;
    let managers = instances(&store.url, INSTANCES).await?;
    let mut table = table(["", "taps", "users", "draws", "come tomorrow", "busy", "errors", "most per user"]);
    let mut all = Taps::default();
    for side in Side::BOTH {
        all = tap(&managers, users, taps, side).await;
        table.add_row([
            side.name().to_owned(),
            (users * taps).to_string(),
            users.to_string(),
            all.draws.to_string(),
            all.refused.to_string(),
            all.busy.to_string(),
            all.errors.to_string(),
            all.most.to_string(),
        ]);
    }
    Ok(Comparison {
        title: format!("{users} users tap {taps} times, at {INSTANCES} instances"),
        table,
        verdict: format!("With the lock the most draws of one user are {}; one is allowed.", all.most),
        kept: all.most <= 1,
    })
}

async fn tap(managers: &[LockManager], users: usize, taps: usize, side: Side) -> Taps {
    let (draws, today) = (Draws::default(), Day::today());
    let mut flying = JoinSet::new();
    for (number, locks) in (0..taps).zip(managers.iter().cycle()) {
        for user in 0..users as u64 {
            let lottery = Lottery { locks: locks.clone(), draws: draws.clone() };
            flying.spawn(async move {
                // The user taps once per millisecond.
                tokio::time::sleep(Duration::from_millis(number as u64)).await;
                match side {
                    Side::Guarded => lottery.draw(user, today).await,
                    Side::Unguarded => lottery.draw_unguarded(user, today).await,
                }
            });
        }
    }
    let mut all = Taps::default();
    while let Some(answer) = flying.join_next().await {
        match answer {
            Ok(Ok(())) => all.draws += 1,
            Ok(Err(DrawError::DrawnAlready)) => all.refused += 1,
            Ok(Err(DrawError::DrawingNow)) => all.busy += 1,
            _ => all.errors += 1,
        }
    }
    Taps { most: draws.most(), ..all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_guarded_lottery_lets_nobody_draw_twice() {
        let managers = instances("memory:", INSTANCES).await.unwrap();
        let all = tap(&managers, 10, 5, Side::Guarded).await;
        assert_eq!((all.draws, all.most, all.errors), (10, 1, 0));
        assert!(
            tap(&managers, 10, 5, Side::Unguarded).await.most > 1,
            "without the lock nothing prevents it"
        );
    }
}
