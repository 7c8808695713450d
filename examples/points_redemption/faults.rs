//! Two faults that a lock alone does not prevent: a holder that is paused for longer than its lease, and a client that
//! repeats its request because the answer was lost.

use std::{process::ExitCode, time::Duration};

use distlock::LockManager;
use distlock_examples::table;
use tokio::sync::oneshot;

use crate::{
    AnyError, USER,
    args::{Faults, is_memory},
    shop::{PRICE, RedeemError, Shop, redeem_in},
    store::Store,
};

/// After this time other processes get the lock of a paused process.
const TTL: Duration = Duration::from_millis(500);
/// The longest pause.
const PAUSE: Duration = Duration::from_secs(2);

/// Prints one row for each fault. Fails if there is a gift too many in spite of the fence and the stored result.
pub(crate) async fn compare(options: &Faults) -> Result<ExitCode, AnyError> {
    let directory = tempfile::tempdir()?;
    let store = Store::open(&directory.path().join("points.db")).await?;
    let url = &options.store.url;
    let locks = match is_memory(url) {
        true => LockManager::in_memory(),
        false => LockManager::connect(url).await?,
    };
    let shop = Shop { store, locks };

    let paused = [paused(&shop, Fence::None).await?, paused(&shop, Fence::Checked).await?];
    let repeated = [repeated(&shop, Fence::None).await?, repeated(&shop, Fence::Checked).await?];
    shop.locks.shutdown(TTL).await;

    let mut table = table(["", "gifts allowed", "lock alone", "transaction = …, once = …"]);
    let rows =
        [("process paused for longer than its lease", paused), ("client repeats its request", repeated)];
    for (fault, [alone, fenced]) in rows {
        table.add_row([fault, "1", &alone.to_string(), &fenced.to_string()]);
    }
    println!("{}", table.trim_fmt());
    Ok(if paused[1] == 1 && repeated[1] == 1 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    None,
    Checked,
}

/// Two redemptions of points for one gift. The first one is paused between reading and writing. Meanwhile the second
/// one gets the lock, and ends. Returns the number of gifts.
async fn paused(shop: &Shop, fence: Fence) -> Result<i64, AnyError> {
    shop.store.open_account(USER, PRICE).await?;
    let (has_read, until_read) = oneshot::channel();
    let (goes_on, pause) = oneshot::channel();
    let stands_still = async move {
        let _ = has_read.send(());
        drop(tokio::time::timeout(PAUSE, pause).await);
    };
    let first = tokio::spawn({
        let shop = shop.clone();
        async move {
            // A paused process does not renew its lock, and does not notice the loss.
            let lock = shop.locks.lock(format!("points:{USER}")).ttl(TTL).no_renew().fenced();
            let guard = lock.acquire().await?;
            match fence {
                Fence::None => shop.redeem_slowly(USER, stands_still).await,
                Fence::Checked => {
                    let redeem = async |tx: &mut _| redeem_in(tx, USER, stands_still).await;
                    distlock::fence::transaction(&guard.fence()?, &shop.store.pool, redeem).await
                }
            }
        }
    });
    if until_read.await.is_err() {
        first.await??;
        return Err("the first redemption has read nothing".into());
    }
    let second = match fence {
        Fence::None => shop.redeem(USER).await,
        Fence::Checked => shop.redeem_fenced(USER).await,
    };
    let _ = goes_on.send(());
    // With the fence, one of them is refused.
    for refused in [second, first.await?] {
        if let Err(error @ (RedeemError::Lock(_) | RedeemError::Database(_))) = refused {
            return Err(error.into());
        }
    }
    gifts(shop).await
}

/// One request, which is sent twice. Returns the number of gifts.
async fn repeated(shop: &Shop, fence: Fence) -> Result<i64, AnyError> {
    shop.store.open_account(USER, 2 * PRICE).await?;
    for _ in 0..2 {
        match fence {
            Fence::None => shop.redeem(USER).await?,
            Fence::Checked => shop.redeem_once("request-1", USER).await?,
        };
    }
    gifts(shop).await
}

async fn gifts(shop: &Shop) -> Result<i64, AnyError> {
    Ok(shop.store.account(USER).await?.ok_or("the account is gone")?.gifts)
}
