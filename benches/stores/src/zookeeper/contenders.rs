//! Simple code with the client of ZooKeeper, and the client's own recipe.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error, LockOptions, LockPrefix, OwnedLockClient};

use crate::Result;
use crate::locks::Locks;

const SESSION: Duration = Duration::from_secs(30);

pub(super) async fn session(address: &str) -> Result<Client> {
    Ok(Client::connector().with_session_timeout(SESSION).connect(address).await?)
}

/// The simplest code: an ephemeral node, created and deleted. A client that finds it watches it.
#[derive(Clone)]
pub(crate) struct RawNode(Client);

impl Locks for RawNode {
    type Guard = (Client, String);

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        Ok(RawNode(session(address).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let path = format!("/raw-{}", key.replace('/', "-"));
        loop {
            match self.0.create(&path, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await {
                Ok(_) => return Ok((self.0.clone(), path)),
                Err(Error::NodeExists) => {
                    let (found, watcher) = self.0.check_and_watch_stat(&path).await?;
                    if found.is_some() {
                        watcher.changed().await;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn release((client, path): Self::Guard) -> Result<()> {
        Ok(client.delete(&path, None).await?)
    }
}

/// The recipe of the client: sequential nodes, each of which watches the previous one.
#[derive(Clone)]
pub(crate) struct Recipe(Client);

impl Locks for Recipe {
    type Guard = OwnedLockClient;

    async fn connect(address: &str, _name: &str) -> Result<Self> {
        Ok(Recipe(session(address).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let directory = format!("/recipe-{}", key.replace('/', "-"));
        let ancestors = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(ancestors)?;
        let lock = self.0.lock(LockPrefix::new_curator(&directory, "lock-")?, b"", options).await?;
        Ok(lock.into_owned())
    }

    /// Dropping it deletes the node, without a wait for the reply.
    async fn release(guard: Self::Guard) -> Result<()> {
        drop(guard);
        Ok(())
    }
}
