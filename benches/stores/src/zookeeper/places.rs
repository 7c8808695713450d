//! The recipe for locks of all kinds in ZooKeeper's documentation.

use std::collections::HashSet;

use tokio::task::JoinSet;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::Result;
use crate::kinds::{Kind, Kinds};
use crate::locks::Locks;
use crate::zookeeper::contenders::session;

/// Sequential ephemeral nodes. A writer watches the node before it, and a reader the last writer before it. A waiter
/// for one of *n* leases watches *n* nodes. A waiter that wakes up lists all nodes again.
#[derive(Clone)]
pub(crate) struct RawPlaces(Client);

impl Locks for RawPlaces {
    type Guard = (Client, String);

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        Ok(RawPlaces(session(address).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        self.acquire_as(key, Kind::Exclusive).await
    }

    async fn release((client, path): Self::Guard) -> Result<()> {
        Ok(client.delete(&path, None).await?)
    }
}

impl Kinds for RawPlaces {
    async fn acquire_as(&self, key: &str, kind: Kind) -> Result<Self::Guard> {
        let client = &self.0;
        let folder = format!("/places-{}", key.replace('/', "-"));
        let prefix = format!("{folder}/{}-", kind.word());
        let place = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let mut created = client.create(&prefix, b"", &place).await;
        if let Err(Error::NoNode) = created {
            client.mkdir(&folder, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
            created = client.create(&prefix, b"", &place).await;
        }
        let own = format!("{}-{}", kind.word(), created?.1);
        let (mut watched, mut gone) = (HashSet::new(), JoinSet::new());
        loop {
            let mut places = client.list_children(&folder).await?;
            // The server numbers them with ten digits.
            places.sort_unstable_by(|one, other| number(one).cmp(number(other)));
            let before = places.iter().position(|place| *place == own).ok_or("the place is gone")?;
            let awaited = kind.watched(&places[..before]);
            if awaited.is_empty() {
                return Ok((client.clone(), format!("{folder}/{own}")));
            }
            for place in awaited.iter().filter(|place| !watched.contains(*place)).cloned().collect::<Vec<_>>()
            {
                let (found, watcher) = client.check_and_watch_stat(&format!("{folder}/{place}")).await?;
                watched.insert(place.clone());
                gone.spawn(async move {
                    if found.is_some() {
                        watcher.changed().await;
                    }
                    place
                });
            }
            if let Some(place) = gone.join_next().await {
                watched.remove(&place?);
            }
        }
    }
}

fn number(place: &str) -> &str {
    place.rsplit('-').next().unwrap_or(place)
}
