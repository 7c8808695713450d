//! Locks in an SQLite file, for the processes of one machine: no server is needed.
//!
//! Each lease has a row. Each operation is one transaction, on a thread of the store. An attempt for a busy lock only
//! reads. Leases are counted by the kernel's clock since its start, so the time of day may be set, and all leases end
//! when the machine restarts. There are no notifications, so waiters poll. docs/sqlite.md lists the permissions that a
//! user of the file needs.

mod clock;
mod diagnosis;
mod errors;
mod file;
mod leases;
mod local;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
mod url;
mod worker;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use file::{Durable, LockFile};
use url::Location;
use worker::Worker;

use distlock_store::engine::Who;
use distlock_store::kit::backoff::{Backoff, jittered};
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::{
    Abilities, Acquire, AcquireReply, EarlierCommands, Fencing, Finding, List, LockStore, Publish, Release,
    ReleaseReply, Renew, RenewReply, Replace, ReplaceReply, StoreError, StoreEvents, StoredLock, StoredPage,
    Waiting,
};

/// Longer than any real lease.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How many locks one transaction acquires or renews.
const TOGETHER: usize = 100;
/// The pause between the first two attempts to open the file.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// About how often each process removes the rows of leases that have ended.
const PRUNING: Duration = Duration::from_secs(600);

/// Locks in an SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    place: Arc<Location>,
    who: Who,
    worker: OnceLock<Worker>,
}

impl SqliteStore {
    /// A store from a URL and the program's options.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let place = Arc::new(Location::parse(url, options)?);
        Ok(SqliteStore { place, who: Who::this_process(), worker: OnceLock::new() })
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LockFile, i64) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let worker = self.worker.get().ok_or_else(|| StoreError::not_sent("the file is not open yet"))?;
        worker.ask(&self.place, work).await
    }

    /// Opens the file, if it is not open, and removes unused rows.
    async fn look_after(&self) -> Result<(), StoreError> {
        if self.worker.get().is_none() {
            // No other code sets it.
            drop(self.worker.set(Worker::start()?));
        }
        self.ask(|file, until| {
            if file.read(leases::is_to_be_pruned)? {
                // A failure does no harm: the removal can wait while a process keeps the file locked.
                drop(file.write(Some(until), Durable::No, |tx, at| leases::prune(tx, at)));
            }
            Ok(())
        })
        .await
    }
}

/// Acquires the locks in one transaction, up to the first one that is busy.
fn acquire_each(
    file: &mut LockFile,
    until: i64,
    requests: &[Acquire],
    who: &Who,
) -> Result<Vec<AcquireReply>, StoreError> {
    // A client that polls does not delay those that write.
    if let Some(first) = requests.first()
        && let Some(refusal) = file.read(|db, at| leases::refusal(db, at, first))?
    {
        return Ok(vec![refusal]);
    }
    let is_fenced = requests.iter().any(|request| request.fences > 0);
    let durable = if is_fenced { Durable::Yes } else { Durable::No };
    file.write(Some(until), durable, |tx, at| {
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            let reply = leases::acquire(tx, at, request, who)?;
            let is_acquired = reply.is_acquired();
            replies.push(reply);
            if !is_acquired {
                break;
            }
        }
        Ok(replies)
    })
}

impl LockStore for SqliteStore {
    fn abilities(&self) -> Abilities {
        Abilities::default()
            .shared()
            .limited()
            .min_hold()
            .fencing(Fencing::Blocks)
            .waiting(Waiting::Polling)
            .longest_ttl(LONGEST)
            .acquires_together(TOGETHER)
            .renews_together(TOGETHER)
            .lists()
            .publishes()
            .replaces()
    }

    fn describe(&self) -> String {
        format!("SQLite in {}", self.place.path.display())
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let mut replies = self.acquire_all(std::slice::from_ref(request)).await?;
        replies.pop().ok_or_else(|| StoreError::unknown("no answer"))
    }

    async fn acquire_all(&self, requests: &[Acquire]) -> Result<Vec<AcquireReply>, StoreError> {
        let (requests, who) = (requests.to_vec(), self.who.clone());
        self.ask(move |file, until| acquire_each(file, until, &requests, &who)).await
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let mut replies = self.renew_all(std::slice::from_ref(request)).await?;
        replies.pop().ok_or_else(|| StoreError::unknown("no answer"))
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let requests = requests.to_vec();
        self.ask(move |file, until| {
            file.write(Some(until), Durable::No, |tx, at| {
                let reply = |is_renewed| if is_renewed { RenewReply::Renewed } else { RenewReply::NotHeld };
                requests.iter().map(|request| leases::renew(tx, at, request).map(reply)).collect()
            })
        })
        .await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let request = request.clone();
        let write = move |file: &mut LockFile, until| {
            file.write(Some(until), Durable::No, |tx, at| leases::release(tx, at, &request))
        };
        Ok(if self.ask(write).await? { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let key = key.to_owned();
        let read = move |file: &mut LockFile, _| {
            file.read(|db, at| leases::with_published(db, &key, leases::inspect(db, at, &key)?))
        };
        self.ask(read).await
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        let request = request.clone();
        let write = move |file: &mut LockFile, until| {
            file.write(Some(until), Durable::No, |tx, at| leases::publish(tx, at, &request))
        };
        self.ask(write).await
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        let request = request.clone();
        let write = move |file: &mut LockFile, until| {
            file.write(Some(until), Durable::No, |tx, _| leases::unpublish(tx, &request))
        };
        self.ask(write).await
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let (request, who) = (request.clone(), self.who.clone());
        let durable = if request.fences > 0 { Durable::Yes } else { Durable::No };
        let write = move |file: &mut LockFile, until| {
            file.write(Some(until), durable, |tx, at| leases::replace(tx, at, &request, &who))
        };
        self.ask(write).await
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        let request = request.clone();
        self.ask(move |file, _| file.read(|db, at| leases::list(db, at, &request))).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.ask(|file, _| file.examine()).await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        let key = key.to_owned();
        let write = move |file: &mut LockFile, until| {
            file.write(Some(until), Durable::No, |tx, at| leases::force_release(tx, at, &key))
        };
        self.ask(write).await
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        let mut backoff = Backoff::beginning_with(FIRST_PAUSE);
        let mut is_up = false;
        loop {
            match self.look_after().await {
                Ok(()) => {
                    if !is_up {
                        // The thread executes one job after the other, so no earlier command is left.
                        events.up(EarlierCommands::Ended);
                        is_up = true;
                        backoff = Backoff::beginning_with(FIRST_PAUSE);
                    }
                    tokio::time::sleep(jittered(PRUNING)).await;
                }
                Err(error) => {
                    events.down(error);
                    is_up = false;
                    tokio::time::sleep(backoff.next_pause()).await;
                }
            }
        }
    }
}
