//! Lists the locks, and the processes of their holders and waiters.

use std::collections::HashMap;

use etcd_client::{GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse};

use super::link::Link;
use super::places::{Place, QueueState};
use super::transactions;
use super::{EtcdStore, MOST_TOGETHER};
use distlock_store::engine::{Who, client_of};
use distlock_store::{List, OwnerDetails, StoreError, StoredLock, StoredPage};

/// The number of places that one request reads.
const MOST_PLACES: usize = 1_000;

impl EtcdStore {
    pub(super) async fn page(&self, request: &List) -> Result<StoredPage, StoreError> {
        let (link, names) = (self.linked()?, &self.config.names);
        let (start, end) = names.locks(&request.beginning, request.after.as_deref());
        let limit = i64::try_from(MOST_PLACES).unwrap_or(i64::MAX);
        let options = GetOptions::new().with_range(end).with_limit(limit);
        let answer = self.ask(&link, Txn::new().and_then([TxnOp::get(start, Some(options))])).await?;
        let kvs: &[KeyValue] = match answer.responses.as_slice() {
            [TxnOpResponse::Get(found)] => found.kvs(),
            _ => &[],
        };
        let is_full = kvs.len() >= MOST_PLACES;
        let mut locks =
            group(kvs.iter().filter_map(|kv| Some((names.read(kv.key())?.key, Place::read(kv, names)?))));
        // The last lock may have more places.
        if let Some((key, _)) = locks.pop_if(|_| is_full) {
            let places = self.places(&link, &key).await?.places;
            locks.push((key, places));
        }
        let mut page = StoredPage::new();
        let clients =
            locks.iter().flat_map(|(_, places)| places.iter().filter_map(|place| client_of(&place.owner)));
        let details = self.details(&link, clients.map(str::to_owned).collect()).await?;
        for (key, places) in locks {
            if let Some(lock) = QueueState::of(places).stored() {
                page = page.lock(key, lock.with_clients(&details));
            }
        }
        Ok(if is_full { page.and_more() } else { page })
    }

    /// Adds the hosts and names of the processes.
    pub(super) async fn with_details(&self, link: &Link, lock: StoredLock) -> Result<StoredLock, StoreError> {
        let owners = lock.holders.iter().map(|(holder, _)| holder).chain(&lock.waiting);
        let clients = owners.filter_map(|owner| client_of(owner)).map(str::to_owned).collect();
        let details = self.details(link, clients).await?;
        Ok(lock.with_clients(&details))
    }

    /// Adds the text that the holder has published. The value is the holder's name, a line end, and the text.
    pub(super) async fn with_published(
        &self,
        link: &Link,
        key: &str,
        lock: StoredLock,
    ) -> Result<StoredLock, StoreError> {
        let answer = self.ask(link, transactions::read(&[self.config.names.published(key)])).await?;
        let Some(TxnOpResponse::Get(found)) = answer.responses.into_iter().next() else { return Ok(lock) };
        let text =
            found.kvs().first().and_then(|kv| std::str::from_utf8(kv.value()).ok()).unwrap_or_default();
        Ok(match text.split_once('\n') {
            Some((owner, value)) => lock.published(owner, value),
            None => lock,
        })
    }

    async fn details(
        &self,
        link: &Link,
        mut clients: Vec<String>,
    ) -> Result<HashMap<String, OwnerDetails>, StoreError> {
        clients.sort_unstable();
        clients.dedup();
        let mut details = HashMap::new();
        for some in clients.chunks(MOST_TOGETHER) {
            let sessions: Vec<String> = some.iter().map(|client| self.config.names.session(client)).collect();
            let answer = self.ask(link, transactions::read(&sessions)).await?;
            for (client, said) in some.iter().zip(answer.responses) {
                let TxnOpResponse::Get(found) = said else { continue };
                let value = found.kvs().first().and_then(|kv| std::str::from_utf8(kv.value()).ok());
                if let Some(who) = value.and_then(Who::from_text) {
                    details.insert(client.clone(), OwnerDetails { who, ..OwnerDetails::default() });
                }
            }
        }
        Ok(details)
    }
}

/// The places of each lock, the oldest first. They come in the order of their names.
fn group(places: impl Iterator<Item = (String, Place)>) -> Vec<(String, Vec<Place>)> {
    let mut locks: Vec<(String, Vec<Place>)> = Vec::new();
    for (key, place) in places {
        match locks.last_mut().filter(|(last, _)| *last == key) {
            Some((_, places)) => places.push(place),
            None => locks.push((key, vec![place])),
        }
    }
    for (_, places) in &mut locks {
        places.sort_by_key(|place| place.create_revision);
    }
    locks
}
