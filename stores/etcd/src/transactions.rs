//! What is asked of etcd: one transaction for each operation, and what its answer says.
//!
//! Every transaction that writes compares the session's key with the revision at which the present connection wrote it.
//! A write of an earlier connection that arrives late, however late, finds another revision there and does nothing.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};

use super::keys::Names;
use distlock_store::LockKind;
use distlock_store::{Busy, KEPT, StoredLock};

/// The value of a place in the queue of an exclusive lock.
const EXCLUSIVE: &str = "x";
/// The value of a place that is kept after its owner has released it.
const KEPT_PLACE: &str = "kept";

/// The most waiters of a lock that are named.
const MOST_NAMED: usize = 1_000;

/// The session as the present connection knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    /// The name of the session's key.
    pub(super) name: String,
    /// The revision at which this connection wrote it.
    pub(super) revision: i64,
    pub(super) lease: i64,
}

impl Epoch {
    fn is_ours(&self) -> Compare {
        Compare::mod_revision(&*self.name, CompareOp::Equal, self.revision)
    }

    /// Reads the session's key where a guarded transaction was refused.
    fn look(&self) -> TxnOp {
        TxnOp::get(&*self.name, None)
    }

    /// Writes a place, and reads what was there.
    fn put_again(&self, place: &str) -> TxnOp {
        TxnOp::put(place, EXCLUSIVE, Some(PutOptions::new().with_lease(self.lease).with_prev_key()))
    }

    /// Writes a place that was not there.
    fn put(&self, place: &str) -> TxnOp {
        TxnOp::put(place, EXCLUSIVE, Some(PutOptions::new().with_lease(self.lease)))
    }
}

/// All places of a lock, the oldest first.
fn places(prefix: &str) -> TxnOp {
    let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
    TxnOp::get(prefix, Some(options))
}

fn is_free(prefix: &str) -> Compare {
    Compare::create_revision(prefix, CompareOp::Equal, 0).with_prefix()
}

fn exists(place: &str) -> Compare {
    Compare::create_revision(place, CompareOp::Greater, 0)
}

/// Of a place that exists: no value equals that of a key that is not there.
fn is_not_kept(place: &str) -> Compare {
    Compare::value(place, CompareOp::Equal, EXCLUSIVE)
}

/// What a transaction was answered, sent by itself or as a part of another one.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// The revision of the store then: that of the transaction if it has written.
    revision: Option<i64>,
    succeeded: bool,
    pub(super) responses: Vec<TxnOpResponse>,
}

impl Said {
    /// The answers to the transactions of which this one was made. Theirs do not name the revision.
    pub(super) fn parts(self) -> Vec<Said> {
        let part = |response| match response {
            TxnOpResponse::Txn(inner) => Some(Said { revision: self.revision, ..Said::from(&inner) }),
            _ => None,
        };
        self.responses.into_iter().filter_map(part).collect()
    }
}

impl From<&TxnResponse> for Said {
    fn from(answer: &TxnResponse) -> Self {
        Said {
            revision: answer.header().map(|header| header.revision()),
            succeeded: answer.succeeded(),
            responses: answer.op_responses(),
        }
    }
}

/// Takes a place, whether others stand before it or not, or says again that it is wanted: a new revision, for a
/// fencing token, at the same place.
pub(super) fn join(epoch: &Epoch, prefix: &str, place: &str) -> Txn {
    Txn::new()
        .when([epoch.is_ours()])
        .and_then([epoch.put_again(place), places(prefix)])
        .or_else([epoch.look()])
}

/// The same, but a new place is taken only if nobody has one.
pub(super) fn enter(epoch: &Epoch, prefix: &str, place: &str) -> Txn {
    let again = Txn::new()
        .when([epoch.is_ours(), exists(place)])
        .and_then([epoch.put_again(place), places(prefix)])
        .or_else([epoch.look(), places(prefix)]);
    Txn::new()
        .when([epoch.is_ours(), is_free(prefix)])
        .and_then([epoch.put(place)])
        .or_else([TxnOp::txn(again)])
}

/// Gives up a place.
pub(super) fn leave(epoch: &Epoch, place: &str) -> Txn {
    Txn::new()
        .when([epoch.is_ours(), is_not_kept(place)])
        .and_then([TxnOp::delete(place, None)])
        .or_else([epoch.look()])
}

/// Leaves a place taken for as long as this lease lives.
pub(super) fn keep(epoch: &Epoch, place: &str, lease: i64) -> Txn {
    let put = TxnOp::put(place, KEPT_PLACE, Some(PutOptions::new().with_lease(lease)));
    Txn::new().when([epoch.is_ours(), is_not_kept(place)]).and_then([put]).or_else([epoch.look()])
}

/// Gives up the place of any owner, if it is still the one that was seen.
pub(super) fn evict(epoch: &Epoch, place: &[u8], create_revision: i64) -> Txn {
    Txn::new()
        .when([epoch.is_ours(), Compare::create_revision(place, CompareOp::Equal, create_revision)])
        .and_then([TxnOp::delete(place, None)])
        .or_else([epoch.look()])
}

/// Reads these places, and nothing else.
pub(super) fn read(places: &[String]) -> Txn {
    Txn::new().and_then(places.iter().map(|place| TxnOp::get(&**place, None)).collect::<Vec<_>>())
}

/// Reads who has a place.
pub(super) fn look(prefix: &str) -> Txn {
    Txn::new().and_then([places(prefix)])
}

/// What a guarded transaction was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<T> {
    /// It was carried out, or refused for what it asks.
    Counts(T),
    /// Another connection of ours, or nobody, has the session: nothing was done.
    NotOurSession,
    /// It cannot be read.
    Garbled,
}

/// Those who have a place, in order, and what the transaction did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) places: Vec<Place>,
    /// The revision of the transaction if it has written.
    pub(super) written: Option<i64>,
    /// The place was there before.
    pub(super) existed: bool,
}

/// A place as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: Vec<u8>,
    pub(super) owner: String,
    pub(super) create_revision: i64,
    pub(super) kept: bool,
}

impl Place {
    pub(super) fn read(kv: &KeyValue, names: &Names) -> Option<Place> {
        let owner = names.read(kv.key())?.owner;
        let kept = kv.value() == KEPT_PLACE.as_bytes();
        Some(Place { name: kv.key().to_vec(), owner, create_revision: kv.create_revision(), kept })
    }

    fn read_all(found: &GetResponse, names: &Names) -> Vec<Place> {
        found.kvs().iter().filter_map(|kv| Place::read(kv, names)).collect()
    }

    /// Who stands as the holder.
    pub(super) fn holder(&self) -> &str {
        if self.kept { KEPT } else { &self.owner }
    }
}

impl Seen {
    /// A place that was taken when there was no other one.
    fn alone((name, owner): (&str, &str), revision: i64) -> Self {
        let (name, owner) = (name.into(), owner.to_owned());
        let place = Place { name, owner, create_revision: revision, kept: false };
        Seen { places: vec![place], written: Some(revision), existed: false }
    }

    /// Before how many others this owner stands behind; `None`: it has no place.
    pub(super) fn position(&self, owner: &str) -> Option<usize> {
        self.places.iter().position(|place| place.owner == owner)
    }

    pub(super) fn busy(&self, behind: usize) -> Option<Busy> {
        let busy = Busy::by(self.places.first()?.holder());
        Some(if behind > 1 { busy.behind_others() } else { busy })
    }

    /// What `inspect` shows.
    pub(super) fn stored(&self) -> Option<StoredLock> {
        let (first, others) = self.places.split_first()?;
        let waiters = u64::try_from(others.len()).unwrap_or(u64::MAX);
        let lock = StoredLock::new(LockKind::Exclusive).holder(first.holder(), None).waiters(waiters);
        let named = others.iter().take(MOST_NAMED);
        Some(named.fold(lock, |lock, place| lock.waiter(&*place.owner)))
    }
}

/// The answer to [`join`] or [`enter`]. `own`: the place that was asked for, and its owner.
pub(super) fn seen(answer: Said, epoch: &Epoch, names: &Names, own: (&str, &str)) -> Answer<Seen> {
    let Said { revision, mut succeeded, mut responses } = answer;
    if let [TxnOpResponse::Txn(inner)] = responses.as_slice() {
        (succeeded, responses) = (inner.succeeded(), inner.op_responses());
    }
    match responses.as_slice() {
        [TxnOpResponse::Put(_)] if succeeded => match revision {
            Some(revision) => Answer::Counts(Seen::alone(own, revision)),
            None => Answer::Garbled,
        },
        [TxnOpResponse::Put(put), TxnOpResponse::Get(found)] if succeeded => Answer::Counts(Seen {
            places: Place::read_all(found, names),
            written: revision,
            existed: put.prev_key().is_some(),
        }),
        [TxnOpResponse::Get(session), TxnOpResponse::Get(found)] if is_session(session.kvs(), epoch) => {
            Answer::Counts(Seen { places: Place::read_all(found, names), written: None, existed: false })
        }
        [TxnOpResponse::Get(_), ..] => Answer::NotOurSession,
        _ => Answer::Garbled,
    }
}

/// The answer to [`look`].
pub(super) fn looked(answer: &Said, names: &Names) -> Option<Seen> {
    match answer.responses.as_slice() {
        [TxnOpResponse::Get(found)] => {
            Some(Seen { places: Place::read_all(found, names), written: None, existed: false })
        }
        _ => None,
    }
}

/// The answer to [`leave`], [`keep`] or [`evict`]: whether they found what they look for.
pub(super) fn done(answer: &Said, epoch: &Epoch) -> Answer<bool> {
    if answer.succeeded {
        return Answer::Counts(true);
    }
    match answer.responses.as_slice() {
        [TxnOpResponse::Get(session)] if is_session(session.kvs(), epoch) => Answer::Counts(false),
        [TxnOpResponse::Get(_)] => Answer::NotOurSession,
        _ => Answer::Garbled,
    }
}

/// The answer to [`read`]: which of the places are there, and live with our session.
pub(super) fn held(answer: &Said, epoch: &Epoch) -> Vec<bool> {
    let is_held = |kv: &KeyValue| kv.lease() == epoch.lease && kv.value() == EXCLUSIVE.as_bytes();
    let read = answer.responses.iter().map(|response| match response {
        TxnOpResponse::Get(found) => found.kvs().first().is_some_and(is_held),
        _ => false,
    });
    read.collect()
}

fn is_session(kvs: &[KeyValue], epoch: &Epoch) -> bool {
    kvs.first().is_some_and(|kv| kv.mod_revision() == epoch.revision)
}

/// The ttl of a lease that lasts so long at least.
pub(super) fn lease_ttl(time: Duration) -> i64 {
    let seconds = super::config::whole_seconds(time).as_secs().max(1);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
