//! Exports to a provider that takes three at a time and refuses the others.
//!
//! ```text
//! cargo run --release --example rate_limited_export                              embedded, nothing to install
//! cargo run --release --example rate_limited_export -- --url redis://127.0.0.1/  through Redis
//! ```
//!
//! The function to copy is `Exporter::export`.

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Comparison, Side, Store, count, instances, run, table};
use tokio::task::JoinSet;

/// Exports to a provider that takes three at a time and turns away the others
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Exports that are due at the same moment
    #[arg(long, default_value = "40", value_parser = count())]
    exports: usize,
}

const INSTANCES: usize = 4;
/// The limit in the contract with the provider.
const AT_A_TIME: u32 = 3;

#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the provider says: too many connections")]
    TurnedAway,
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// One instance of the service.
#[derive(Debug, Clone)]
struct Exporter {
    locks: LockManager,
    provider: Provider,
}

impl Exporter {
    /// Exports one file: at most `AT_A_TIME` in all instances together, in the order of the requests.
    #[distributed_lock(key = "exports", max_holders = AT_A_TIME, wait = "1m", ttl = "10s", manager = self.locks)]
    async fn export(&self) -> Result<(), ExportError> {
        self.export_unguarded().await
    }

    /// The same without the lock: an instance does not know how many exports the others run.
    async fn export_unguarded(&self) -> Result<(), ExportError> {
        self.provider.upload().await
    }
}

/// Stands for the provider's service.
#[derive(Debug, Clone, Default)]
struct Provider(Arc<Connections>);

#[derive(Debug, Default)]
struct Connections {
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Provider {
    async fn upload(&self) -> Result<(), ExportError> {
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(open, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        if open > AT_A_TIME as usize { Err(ExportError::TurnedAway) } else { Ok(()) }
    }

    fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
struct Exports {
    done: usize,
    turned_away: usize,
    errors: usize,
    most: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    run(compare).await
}

async fn compare(options: Options) -> Result<Comparison, AnyError> {
    let Options { store, exports: due } = options;
    let managers = instances(&store.url, INSTANCES).await?;
    let mut table = table(["", "due", "done", "turned away", "errors", "allowed at a time", "at a time"]);
    let mut exports = Exports::default();
    for side in Side::BOTH {
        exports = export_all(&managers, due, side).await;
        table.add_row([
            side.name().to_owned(),
            due.to_string(),
            exports.done.to_string(),
            exports.turned_away.to_string(),
            exports.errors.to_string(),
            AT_A_TIME.to_string(),
            exports.most.to_string(),
        ]);
    }
    Ok(Comparison {
        title: format!(
            "{due} exports at {INSTANCES} instances, to a provider that takes {AT_A_TIME} at a time"
        ),
        table,
        verdict: format!("With the lock there were at most {} at a time.", exports.most),
        kept: exports.most <= AT_A_TIME as usize && exports.turned_away == 0,
    })
}

async fn export_all(managers: &[LockManager], due: usize, side: Side) -> Exports {
    let provider = Provider::default();
    let mut flying = JoinSet::new();
    for locks in managers.iter().cycle().take(due) {
        let exporter = Exporter { locks: locks.clone(), provider: provider.clone() };
        flying.spawn(async move {
            match side {
                Side::Guarded => exporter.export().await,
                Side::Unguarded => exporter.export_unguarded().await,
            }
        });
    }
    let mut exports = Exports::default();
    while let Some(answer) = flying.join_next().await {
        match answer {
            Ok(Ok(())) => exports.done += 1,
            Ok(Err(ExportError::TurnedAway)) => exports.turned_away += 1,
            _ => exports.errors += 1,
        }
    }
    Exports { most: provider.most(), ..exports }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn guarded_exports_are_never_turned_away() {
        let managers = instances("memory:", INSTANCES).await.unwrap();
        let exports = export_all(&managers, 20, Side::Guarded).await;
        assert_eq!((exports.done, exports.most), (20, AT_A_TIME as usize));
        assert!(
            export_all(&managers, 20, Side::Unguarded).await.turned_away > 0,
            "without the lock nothing holds them back"
        );
    }
}
