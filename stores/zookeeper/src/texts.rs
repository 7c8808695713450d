//! The texts that holders publish.
//!
//! The text of a key is an ephemeral node of its holder's session, which the holder's release removes. Its data is the
//! name of the holder, a line end, and the text. It is not the data of another node: each request writes to the node of
//! the lock, and a write to a place means that the lock is handed on.

use std::sync::Arc;

use zookeeper_client::{CreateMode, Error, MultiWriteError};

use super::places::Known;
use super::{MOST_ATTEMPTS, ZooKeeperStore};
use distlock_store::{Owner, Publish, StoreError, StoredLock};

/// The version of a place, whose data is written only when it is handed on.
const NEVER_WRITTEN: i32 = 0;

impl ZooKeeperStore {
    pub(super) async fn write_text(&self, request: &Publish) -> Result<(), StoreError> {
        let Publish { key, owner, value, .. } = request;
        // Before the request is sent, so that a release removes the text if the reply is lost.
        self.places.lock().publishes(key, owner);
        self.change_text(key, owner, Some(&format!("{owner}\n{value}"))).await
    }

    /// The text of an owner that has no place stays until its session ends, and is not shown.
    pub(super) async fn remove_text(&self, key: &Arc<str>, owner: &Owner) -> Result<(), StoreError> {
        self.change_text(key, owner, None).await
    }

    async fn change_text(&self, key: &Arc<str>, owner: &Owner, text: Option<&str>) -> Result<(), StoreError> {
        let (link, names) = (self.linked()?, &self.config.names);
        let Known::Stands(name) = self.places.lock().known(key, owner, link.session) else {
            return Ok(());
        };
        let (place, node) = (name.path(&names.lock(key)), names.text(key));
        let options = CreateMode::Ephemeral.with_acls(self.config.acls());
        let mut exists = text.is_none();
        for _ in 0..MOST_ATTEMPTS {
            let mut writer = link.client.new_multi_writer();
            // Only while its place exists. Otherwise it could replace or remove the text of the next holder.
            let mut added = writer.add_check_version(&place, NEVER_WRITTEN);
            if exists {
                // It may be of another session, and would end with that.
                added = added.and_then(|()| writer.add_delete(&node, None));
            }
            if let Some(text) = text {
                added = added.and_then(|()| writer.add_create(&node, text.as_bytes(), &options));
            }
            added.map_err(|error| self.error(&node, &error))?;
            let (at, error) = match writer.commit().await {
                Ok(_) => return Ok(()),
                Err(MultiWriteError::OperationFailed { index, source }) => (index, source),
                Err(MultiWriteError::RequestFailed { source }) => return Err(self.error(&node, &source)),
            };
            match error {
                // The place has ended.
                Error::NoNode | Error::BadVersion if at == 0 => return Ok(()),
                Error::NodeExists => exists = true,
                Error::NoNode if text.is_none() => return Ok(()),
                Error::NoNode if exists => exists = false,
                Error::NoNode => {
                    let above = CreateMode::Persistent.with_acls(self.config.acls());
                    let made = link.client.mkdir(&names.texts(), &above).await;
                    made.map_err(|error| self.error(&node, &error))?;
                }
                error => return Err(self.error(&node, &error)),
            }
        }
        let describe = self.config.describe();
        Err(StoreError::later(format!("{describe}: `{node}` changes faster than distlock can write")))
    }

    /// Adds the text that a holder has published.
    pub(super) async fn with_text(&self, key: &str, lock: StoredLock) -> Result<StoredLock, StoreError> {
        let node = self.config.names.text(key);
        let data = match self.linked()?.client.get_data(&node).await {
            Ok((data, _)) => data,
            Err(Error::NoNode) => return Ok(lock),
            Err(error) => return Err(self.error(&node, &error)),
        };
        Ok(match std::str::from_utf8(&data).ok().and_then(|text| text.split_once('\n')) {
            Some((owner, value)) => lock.published(owner, value),
            None => lock,
        })
    }
}
