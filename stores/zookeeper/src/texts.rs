//! The texts that holders publish.
//!
//! The text of a key is an ephemeral node of its holder's session. Its data is the name of the holder, a line end, and
//! the text. It is not the data of another node: each request writes to the node of the lock, and a write to a place
//! means that the lock is handed on.

use zookeeper_client::{CreateMode, Error, MultiWriteError};

use super::places::Known;
use super::{MOST_ATTEMPTS, ZooKeeperStore};
use distlock_store::{Publish, StoreError, StoredLock};

/// The version of a place, whose data is written only when it is handed on.
const NEVER_WRITTEN: i32 = 0;

impl ZooKeeperStore {
    /// Writes the text of a holder. An empty text is removed.
    pub(super) async fn write_text(&self, request: &Publish) -> Result<(), StoreError> {
        let (link, names) = (self.linked()?, &self.config.names);
        let Known::Stands(name) = self.places.lock().known(&request.key, &request.owner, link.session) else {
            return Ok(());
        };
        let (place, node) = (name.path(&names.lock(&request.key)), names.text(&request.key));
        let data = format!("{}\n{}", request.owner, request.value);
        let options = CreateMode::Ephemeral.with_acls(self.config.acls());
        let mut exists = request.value.is_empty();
        for _ in 0..MOST_ATTEMPTS {
            let mut writer = link.client.new_multi_writer();
            // Only while its place exists. Otherwise it could replace or remove the text of the next holder.
            let mut added = writer.add_check_version(&place, NEVER_WRITTEN);
            if exists {
                // It may be of another session, and would end with that.
                added = added.and_then(|()| writer.add_delete(&node, None));
            }
            if !request.value.is_empty() {
                added = added.and_then(|()| writer.add_create(&node, data.as_bytes(), &options));
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
                Error::NoNode if exists && request.value.is_empty() => return Ok(()),
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
