//! Simple code with the client of etcd, and the server's own locks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, KeyValue, LockOptions, PutOptions, SortOrder,
    SortTarget, Txn, TxnOp, TxnOpResponse, WatchFilterType, WatchOptions,
};
use tokio::sync::watch;

use crate::Result;
use crate::kinds::{Kind, Kinds};
use crate::locks::Locks;

const TTL: i64 = 30;

/// A client, and a lease that is kept alive.
async fn session(address: &str) -> Result<(Client, i64)> {
    let mut client = Client::connect([address], None).await?;
    let lease = client.lease_grant(TTL, None).await?.id();
    let (mut keeper, mut stream) = client.lease_keep_alive(lease).await?;
    tokio::spawn(async move {
        while keeper.keep_alive().await.is_ok() && stream.message().await.is_ok() {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    });
    Ok((client, lease))
}

/// The simplest code: a transaction on a lease that all locks share. A client that finds the key taken asks again.
#[derive(Clone)]
pub(crate) struct RawTxn {
    client: Client,
    lease: i64,
}

impl Locks for RawTxn {
    type Guard = (Client, String);

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        let (client, lease) = session(address).await?;
        Ok(RawTxn { client, lease })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let mut client = self.client.clone();
        loop {
            let txn = Txn::new()
                .when([Compare::create_revision(key, CompareOp::Equal, 0)])
                .and_then([TxnOp::put(key, "x", Some(PutOptions::new().with_lease(self.lease)))])
                .or_else([TxnOp::get(key, None)]);
            if client.txn(txn).await?.succeeded() {
                return Ok((client, key.to_owned()));
            }
            tokio::time::sleep(Duration::from_micros(fastrand::u64(500..1_500))).await;
        }
    }

    async fn release((mut client, key): Self::Guard) -> Result<()> {
        client.delete(key, None).await?;
        Ok(())
    }
}

/// A queue by revision, with one permanent watch from now on. One task at a time waits.
#[derive(Clone)]
pub(crate) struct RawQueue {
    client: Client,
    lease: i64,
    next: Arc<AtomicU64>,
    deleted: Arc<watch::Sender<Deleted>>,
}

#[derive(Default)]
struct Deleted {
    /// The deleted places since the own place was taken.
    seen: HashSet<Vec<u8>>,
    watched: Vec<String>,
}

impl Deleted {
    fn has_any_watched(&self) -> bool {
        self.watched.iter().any(|key| self.seen.contains(key.as_bytes()))
    }
}

impl Locks for RawQueue {
    type Guard = (Client, String);

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        let (mut client, lease) = session(address).await?;
        let deleted: Arc<watch::Sender<Deleted>> = Arc::default();
        let options = WatchOptions::new().with_prefix().with_filters([WatchFilterType::NoPut]);
        let mut watch = client.watch("bench", Some(options)).await?;
        watch.message().await?;
        let told = deleted.clone();
        tokio::spawn(async move {
            while let Ok(Some(said)) = watch.message().await {
                let gone = said.events().iter().filter(|event| event.event_type() == EventType::Delete);
                let gone: Vec<_> = gone.filter_map(|event| Some(event.kv()?.key().to_vec())).collect();
                // The waiter wakes up only for its own key.
                told.send_if_modified(|deleted| {
                    deleted.seen.extend(gone);
                    deleted.has_any_watched()
                });
            }
        });
        Ok(RawQueue { client, lease, next: Arc::default(), deleted })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        self.acquire_as(key, Kind::Exclusive).await
    }

    async fn release((mut client, own): Self::Guard) -> Result<()> {
        client.delete(own, None).await?;
        Ok(())
    }
}

impl Kinds for RawQueue {
    async fn acquire_as(&self, key: &str, kind: Kind) -> Result<Self::Guard> {
        let mut client = self.client.clone();
        let prefix = format!("{key}/");
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let own = format!("{prefix}{}:{:x}:{number}", kind.word(), self.lease);
        let all = || {
            GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_keys_only()
        };
        self.deleted.send_replace(Deleted::default());
        let put = TxnOp::put(&*own, "", Some(PutOptions::new().with_lease(self.lease)));
        let answer = client.txn(Txn::new().and_then([put, TxnOp::get(&*prefix, Some(all()))])).await?;
        let responses = answer.op_responses();
        let Some(TxnOpResponse::Get(found)) = responses.get(1) else { return Err("no range".into()) };
        let mut places = names(found.kvs())?;
        loop {
            let before = places.iter().position(|place| *place == own).ok_or("the place is gone")?;
            let watched = kind.watched(&places[..before]).to_vec();
            if watched.is_empty() {
                return Ok((client, own));
            }
            self.deleted.send_if_modified(|deleted| {
                deleted.watched = watched;
                false
            });
            self.deleted.subscribe().wait_for(Deleted::has_any_watched).await?;
            places = names(client.get(&*prefix, Some(all())).await?.kvs())?;
        }
    }
}

fn names(kvs: &[KeyValue]) -> Result<Vec<String>> {
    kvs.iter().map(|kv| Ok(kv.key_str()?.to_owned())).collect()
}

/// The server's own Lock and Unlock.
#[derive(Clone)]
pub(crate) struct LockCall {
    client: Client,
    address: String,
}

impl Locks for LockCall {
    type Guard = (Client, Vec<u8>, i64);

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        let client = Client::connect([address], None).await?;
        Ok(LockCall { client, address: address.to_owned() })
    }

    /// Tasks of one lease share the lock. So every process has one lease and one task.
    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        static LEASE: tokio::sync::OnceCell<i64> = tokio::sync::OnceCell::const_new();
        let granted = LEASE.get_or_try_init(async || session(&self.address).await.map(|(_, lease)| lease));
        let lease = *granted.await?;
        let mut client = self.client.clone();
        let locked = client.lock(key, Some(LockOptions::new().with_lease(lease))).await?;
        Ok((client, locked.key().to_vec(), lease))
    }

    async fn release((mut client, key, _): Self::Guard) -> Result<()> {
        client.unlock(key).await?;
        Ok(())
    }
}
