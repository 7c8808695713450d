//! Points, gifts and the lock that protects them in one PostgreSQL database: what a holder writes is committed only if
//! it still holds the lock.
//!
//! ```text
//! cargo run --example locked_transaction -- --url postgres://user@127.0.0.1/database
//! ```
//!
//! The functions to copy are `Shop::redeem` and `Shop::give_gift`. The example creates its tables in the schema
//! `distlock_example`, and removes it at the end. The tables of the lock are in the schema `distlock`, and stay.

mod shop;

use std::process::ExitCode;

use clap::Parser;
use distlock::LockManager;
use distlock_examples::{AnyError, Comparison, count, instances, run, table};
use shop::{PRICE, RedeemError, Shop};
use tokio::task::JoinSet;

/// Points, gifts and the lock that protects them in one PostgreSQL database
#[derive(Debug, Parser)]
struct Options {
    /// The database, for the lock and the data: postgres://user@host/database
    #[arg(long)]
    url: String,
    /// Instances of the service
    #[arg(long, default_value = "4", value_parser = count())]
    instances: usize,
    /// Redemptions at the same moment
    #[arg(long, default_value = "100", value_parser = count())]
    requests: usize,
}

const USER: i64 = 42;
/// The number of gifts that the points of the new account pay for.
const ALLOWED: i64 = 5;

#[tokio::main]
async fn main() -> ExitCode {
    run(compare).await
}

async fn compare(options: Options) -> Result<Comparison, AnyError> {
    let Options { url, instances: count, requests } = options;
    if !url.starts_with("postgres") {
        return Err("the lock and the data are in one database: `--url postgres://…`".into());
    }
    let managers = instances(&url, count).await?;
    let mut shops = Vec::new();
    for locks in managers {
        shops.push(Shop::open(&url, locks).await?);
    }
    shops[0].make_tables().await?;

    let mut table = table(["", "gifts allowed", "gifts given", "refused by the database"]);
    let (given, refused) = at_once(&shops, requests).await?;
    let row = |name: &str, allowed: i64, given: i64, refused: usize| {
        [name.to_owned(), allowed.to_string(), given.to_string(), refused.to_string()]
    };
    table.add_row(row("many at once", ALLOWED, given, refused));
    let (late, _) = comes_late(&shops, Write::Plain).await?;
    table.add_row(row("a holder comes late, plain transaction", 1, late, 0));
    let (asserted, late_refused) = comes_late(&shops, Write::Asserted).await?;
    table.add_row(row("a holder comes late, asserted", 1, asserted, late_refused));
    shops[0].drop_tables().await?;

    Ok(Comparison {
        title: format!(
            "{requests} redemptions at {count} instances, and one that comes too late; a gift costs {PRICE}"
        ),
        table,
        verdict: format!(
            "The late holder gave {} gift too many; the transaction that asserts refused it.",
            late - 1
        ),
        kept: (given, refused, asserted, late_refused) == (ALLOWED, 0, 1, 1) && late == 2,
    })
}

/// How the late holder writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Plain,
    Asserted,
}

/// Gifts that were given, and redemptions that the database has refused because the lock was no longer held.
async fn at_once(shops: &[Shop], requests: usize) -> Result<(i64, usize), AnyError> {
    shops[0].open_account(USER, ALLOWED * PRICE).await?;
    let mut redeeming = JoinSet::new();
    for shop in shops.iter().cycle().take(requests) {
        let shop = shop.clone();
        redeeming.spawn(async move { shop.redeem(USER).await });
    }
    let mut refused = 0;
    while let Some(done) = redeeming.join_next().await {
        match done? {
            Ok(_) | Err(RedeemError::NotEnoughPoints { .. }) => {}
            Err(RedeemError::NotHeld) => refused += 1,
            Err(other) => return Err(other.into()),
        }
    }
    Ok((shops[0].gifts(USER).await?, refused))
}

/// A holder reads the balance, and is paused for longer than its lease: another instance gets the lock, and redeems.
/// Then the first one resumes, and writes the result that it computed before.
async fn comes_late(shops: &[Shop], write: Write) -> Result<(i64, usize), AnyError> {
    let (slow, other) = (&shops[0], &shops[shops.len() - 1]);
    slow.open_account(USER, PRICE).await?;
    let guard = slow.locks.lock(Shop::key(USER)).fenced().acquire().await?;
    let token = guard.fencing_token().ok_or("a fenced lock has a token")?;
    let points = slow.points(USER).await?;
    // Stands for the end of the lease, so that the example need not wait for it.
    take_away(&other.locks).await?;
    other.redeem(USER).await?;
    let written = slow.give_gift(USER, points - PRICE, (write == Write::Asserted).then_some(token)).await;
    let refused = match written {
        Ok(()) => 0,
        Err(RedeemError::NotHeld) => 1,
        Err(error) => return Err(error.into()),
    };
    // The lock was lost, and the release reports it.
    drop(guard.release().await);
    Ok((slow.gifts(USER).await?, refused))
}

async fn take_away(locks: &LockManager) -> Result<(), AnyError> {
    match locks.force_release(Shop::key(USER)).await? {
        true => Ok(()),
        false => Err("nobody held the lock".into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use distlock_fixtures::PostgresServer;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn only_who_holds_the_lock_commits() {
        let server = PostgresServer::start();
        let options = Options { url: server.url(), instances: 3, requests: 40 };
        let came_of_it = compare(options).await.unwrap();
        assert!(came_of_it.kept, "{}", came_of_it.table);
    }
}
