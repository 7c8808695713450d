//! Locks in Memcached, which evicts and forgets: for locks whose double run is harmless.
//!
//! Each lock is an item, whose value is the owner. It is created by an atomic `add`, renewed and removed under its
//! version (CAS), and expires. There are no notifications, so waiters poll. The commands are those of the text protocol
//! (meta.rs), pipelined on one connection, because no client crate sends them in this way. docs/memcached.md lists
//! the causes of a second holder.

mod config;
mod diagnosis;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod leases;
mod link;
mod meta;
mod server_clock;
mod supervisor;

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use link::{Connection, LONGER};
use meta::{Cas, Command, Item, LONGEST_KEY, Response, is_plain};

use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::contended::Contended;
use distlock_store::kit::link::Link;
use distlock_store::{
    Abilities, Ability, Acquire, AcquireReply, Busy, Finding, KEPT, KeyRules, LeaseRule, LockKind, LockStore,
    Release, ReleaseReply, Renew, RenewReply, Replace, ReplaceReply, StoreError, StoreEvents, StoredLock,
    Waiting,
};

/// Memcached reads a longer time as a date.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600 - LONGER.as_secs());
const SECOND: Duration = Duration::from_secs(1);
/// How often a change is tried if the item was changed meanwhile.
const TRIES: usize = 4;

/// Locks in Memcached.
#[derive(Debug)]
pub struct MemcachedStore {
    config: Config,
    link: Link<Connection>,
    contended: Contended,
}

/// The result of a change of an owner's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Changed {
    Done,
    /// There is no item, or it belongs to another owner.
    NotOurs,
}

impl MemcachedStore {
    /// A store from a URL and the program's options.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = Config::parse(url, options)?;
        Ok(MemcachedStore { config, link: Link::default(), contended: Contended::default() })
    }

    /// Reads the item of a key.
    async fn look(&self, connection: &Connection, key: &str) -> Result<Option<Item>, StoreError> {
        match connection.ask(key, Command::Get).await? {
            Response::Found(item) => Ok(Some(item)),
            Response::Missing => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    /// Creates the item, or returns the existing one.
    async fn add(&self, connection: &Connection, request: &Acquire) -> Result<Result<(), Item>, StoreError> {
        let (key, owner) = (&*request.key, request.owner.as_str());
        let ttl = connection.lasting(request.ttl)?;
        for _ in 0..TRIES {
            match connection.ask(key, Command::Add { value: owner, ttl }).await? {
                Response::Done(Some(cas)) => {
                    connection.leases.lock().wrote(key, owner, cas, ttl);
                    return Ok(Ok(()));
                }
                // Evicted, or removed by another client.
                Response::Stored(_) => {
                    return Err(StoreError::unknown("the item was gone as soon as it was written"));
                }
                Response::Exists(Some(item)) => return Ok(Err(item)),
                Response::Exists(None) => {}
                other => return Err(unexpected(&other)),
            }
            if let Some(item) = self.look(connection, key).await? {
                return Ok(Err(item));
            }
            // The item has expired meanwhile.
        }
        Err(StoreError::later("the item changes all the time"))
    }

    /// Sends the command that `command` makes from the version of the owner's item and its remaining time. `None`:
    /// nothing needs to change, if the item still belongs to the owner.
    async fn change<'a>(
        &self,
        connection: &Connection,
        key: &str,
        owner: &'a str,
        command: impl Fn(Cas, Duration) -> Option<Command<'a>>,
    ) -> Result<Changed, StoreError> {
        let mut known = connection.leases.lock().of(key, owner);
        for _ in 0..TRIES {
            let is_remembered = known.is_some();
            let (cas, left) = match known.take() {
                Some(known) => known,
                None => match self.look(connection, key).await? {
                    Some(item) if item.value == owner => {
                        (item.cas, connection.certain(item.remaining.unwrap_or_default()))
                    }
                    _ => break,
                },
            };
            let Some(command) = command(cas, left) else {
                if is_remembered {
                    continue;
                }
                return Ok(Changed::Done);
            };
            match (connection.ask(key, command).await?, command) {
                (Response::Done(Some(cas)), Command::Replace { value, ttl, .. }) if value == owner => {
                    connection.leases.lock().wrote(key, owner, cas, ttl);
                    return Ok(Changed::Done);
                }
                // Evicted, or changed by another client, as soon as it was written.
                (Response::Stored(_), _) => {}
                (Response::Done(_), _) => {
                    connection.leases.lock().ended(key, owner);
                    return Ok(Changed::Done);
                }
                (Response::Missing, _) => break,
                // Another client changed it, or a command of this process whose reply was lost.
                (Response::Changed, _) => {}
                (other, _) => return Err(unexpected(&other)),
            }
        }
        connection.leases.lock().ended(key, owner);
        Ok(Changed::NotOurs)
    }

    /// Makes the lease last for the ttl from now, unless it lasts longer.
    async fn extend(
        &self,
        connection: &Connection,
        key: &str,
        owner: &str,
        time: Duration,
    ) -> Result<RenewReply, StoreError> {
        let ttl = connection.lasting(time)?;
        let replace = |cas, left| (left < time).then_some(Command::Replace { value: owner, ttl, cas });
        Ok(match self.change(connection, key, owner, replace).await? {
            Changed::Done => RenewReply::Renewed,
            Changed::NotOurs => RenewReply::NotHeld,
        })
    }

    fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        self.link.get().ok_or_else(|| StoreError::not_sent("there is no connection to Memcached"))
    }
}

impl LockStore for MemcachedStore {
    fn abilities(&self) -> Abilities {
        const ONE_OWNER: &str = "an item of Memcached has one owner";
        Abilities::default()
            .waiting(Waiting::Polling)
            .min_hold()
            .replaces()
            .lease(LeaseRule::PerLock { granularity: SECOND })
            .longest_ttl(LONGEST)
            .keys(KeyRules::any().at_most(LONGEST_KEY))
            .lacks(Ability::Shared, ONE_OWNER)
            .lacks(Ability::Limited, ONE_OWNER)
            .lacks(
                Ability::Fencing,
                "Memcached forgets every number when it is restarted, or needs the memory: a lock that must be fenced \
                 belongs in another store",
            )
            .connects_within(self.config.connect_timeout * 2)
    }

    fn describe(&self) -> String {
        format!("Memcached at {}", self.config.host)
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let (connection, key) = (self.connection()?, &*request.key);
        let owner = request.owner.as_str();
        let mut found = None;
        // A request that polls reads first, and needs no write while the lock is busy. So does one whose write may
        // remove the item.
        if self.contended.is(key) || !is_plain(key) {
            found = self.look(&connection, key).await?;
        }
        let item = match found {
            Some(item) => item,
            None => match self.add(&connection, request).await? {
                Ok(()) => {
                    self.contended.ended(key);
                    return Ok(AcquireReply::Acquired { fence: None });
                }
                Err(item) => item,
            },
        };
        if item.value != owner {
            self.contended.noted(key);
            let busy = Busy::by(item.value);
            return Ok(AcquireReply::Busy(match item.remaining {
                Some(remaining) => busy.remaining(remaining),
                None => busy,
            }));
        }
        match self.extend(&connection, key, owner, request.ttl).await? {
            RenewReply::Renewed => Ok(AcquireReply::AlreadyHeld { fence: None }),
            // The lease has just ended.
            RenewReply::NotHeld => Err(StoreError::later("the item has changed in between")),
        }
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let Renew { key, owner, ttl, .. } = request;
        self.extend(&*self.connection()?, key, owner.as_str(), *ttl).await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let Release { key, owner, keep, .. } = request;
        let connection = self.connection()?;
        let kept = keep.map(|keep| connection.lasting(keep)).transpose()?;
        let end = |cas, _| {
            Some(match kept {
                Some(ttl) => Command::Replace { value: KEPT, ttl, cas },
                None => Command::Delete { cas },
            })
        };
        Ok(match self.change(&connection, key, owner.as_str(), end).await? {
            Changed::Done => ReleaseReply::Released,
            Changed::NotOurs => ReleaseReply::NotHeld,
        })
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let Replace { key, holder, owner, ttl: time, .. } = request;
        let connection = self.connection()?;
        let (ttl, value) = (connection.lasting(*time)?, owner.as_str());
        let replace = |cas, _| Some(Command::Replace { value, ttl, cas });
        if let Changed::Done = self.change(&connection, key, holder.as_str(), replace).await? {
            return Ok(ReplaceReply::Replaced { fence: None });
        }
        // An earlier command, whose reply was lost, may have done it.
        Ok(match self.extend(&connection, key, value, *time).await? {
            RenewReply::Renewed => ReplaceReply::AlreadyHeld { fence: None },
            RenewReply::NotHeld => ReplaceReply::NotHeld,
        })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let item = self.look(&*self.connection()?, key).await?;
        Ok(item.map(|item| StoredLock::new(LockKind::Exclusive).holder(item.value, item.remaining)))
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.examine().await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        let connection = self.connection()?;
        for _ in 0..TRIES {
            let Some(item) = self.look(&connection, key).await? else { return Ok(false) };
            match connection.ask(key, Command::Delete { cas: item.cas }).await? {
                Response::Done(_) => return Ok(true),
                // A renewal or the next holder changed it.
                Response::Changed | Response::Missing => {}
                other => return Err(unexpected(&other)),
            }
        }
        Err(StoreError::later("the item changes all the time"))
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        self.stay_connected(&events).await;
    }
}

fn unexpected(said: &Response) -> StoreError {
    StoreError::unknown(format!("an answer that is not understood: {said:?}"))
}
