//! Gifts for points, redeemed at several service instances at the same moment.
//!
//! ```text
//! cargo run --release --example points_redemption                              embedded, nothing to install
//! cargo run --release --example points_redemption -- --url redis://127.0.0.1/  through Redis
//! cargo run --release --example points_redemption -- --url redis://127.0.0.1/ --processes 4
//! cargo run --release --example points_redemption -- serve                     the HTTP service alone
//! cargo run --release --example points_redemption -- faults                    what a lock alone cannot do
//! ```
//!
//! `--url` also takes `postgres://`, `mysql://` and `memcached://`, and with `--features etcd,zookeeper` `etcd://` and
//! `zookeeper://`. **Memcached** is for locks whose double run is harmless, and these are not: it forgets locks when
//! its memory is full, or when it is restarted. Start it as `memcached -M` here: then it refuses new locks instead
//! (requests fail, and no gift is given twice) unless it is restarted, against which nothing helps.
//!
//! The function to copy is `Shop::redeem` in `shop.rs`. Everything else shows what happens without its attribute:
//! `load.rs` sends the requests, `fleet.rs` runs the service instances, `report.rs` prints the results. `faults.rs`
//! shows two faults that a lock alone does not prevent, and that `Shop::redeem_fenced` and `Shop::redeem_once` do.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod faults;
mod fleet;
mod load;
mod report;
mod service;
mod shop;
mod store;

use std::{error::Error, process::ExitCode};

use args::{Cli, Command, Compare};
use clap::Parser;
use fleet::Fleet;
use report::{Report, Run};
use store::Store;

type AnyError = Box<dyn Error + Send + Sync>;

const USER: u64 = 42;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli { command: Some(Command::Serve(options)), .. } => {
            fleet::serve(options).await.map(|()| ExitCode::SUCCESS)
        }
        Cli { command: Some(Command::Faults(options)), .. } => faults::compare(&options).await,
        Cli { compare: options, .. } => compare(options).await,
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(2)
    })
}

/// The same requests against the same service, first without the lock, then with it.
async fn compare(options: Compare) -> Result<ExitCode, AnyError> {
    if options.processes.is_some() && args::is_memory(&options.store.url) {
        return Err(
            "`--processes` needs a lock server that processes can share: `--url redis://127.0.0.1/`".into()
        );
    }
    let directory = tempfile::tempdir()?;
    let database = options.database.clone().unwrap_or_else(|| directory.path().join("points.db"));
    let store = Store::open(&database).await?;
    let fleet = Fleet::start(&options, &database).await?;

    let unguarded = run("redeem-unguarded", &options, &store, &fleet).await?;
    let guarded = run("redeem", &options, &store, &fleet).await?;
    fleet.stop().await;

    let report = Report { options, unguarded, guarded };
    println!("{report}");
    Ok(if report.gave_too_much() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn run(action: &str, options: &Compare, store: &Store, fleet: &Fleet) -> Result<Run, AnyError> {
    store.open_account(USER, options.points).await?;
    let answers = load::fire(fleet.addresses(), &format!("/users/{USER}/{action}"), options.requests).await;
    let account = store.account(USER).await?.ok_or("the account is gone")?;
    Ok(Run { answers, account })
}
