//! The commands to etcd: one transaction for each operation, and the meaning of its reply.
//!
//! Every transaction that writes compares the session's key with the revision at which the present connection wrote it.
//! If a write of an earlier connection arrives late, it finds another revision and does nothing.

use std::time::Duration;

use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use super::keys::Names;
use super::places::{Place, QueueState, kept_value};
use super::seats::Seat;
use distlock_store::LockKind;

/// The session, as the present connection wrote it.
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

    /// Reads the session's key after a guarded transaction was refused.
    fn look(&self) -> TxnOp {
        TxnOp::get(&*self.name, None)
    }

    fn lives_with(&self) -> PutOptions {
        PutOptions::new().with_lease(self.lease)
    }

    /// The place exists, and is not kept. A kept place has a separate lease.
    fn has(&self, place: &str) -> Compare {
        Compare::lease(place, CompareOp::Equal, self.lease)
    }
}

/// All places of a lock, the oldest first.
fn places(prefix: &str) -> TxnOp {
    let options = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
    TxnOp::get(prefix, Some(options))
}

/// All places of a lock have values between these two. False if there are none.
fn all_between(prefix: &str, above: &str, below: &str) -> [Compare; 2] {
    [(CompareOp::Greater, above), (CompareOp::Less, below)]
        .map(|(operator, value)| Compare::value(prefix, operator, value).with_prefix())
}

/// All places of a lock are compatible with this kind in one queue. False if there are none.
fn go_together(prefix: &str, kind: LockKind) -> Vec<Compare> {
    match kind {
        // `!` is the character after the space.
        LockKind::Limited { max_holders } => {
            all_between(prefix, &format!("{max_holders} "), &format!("{max_holders}!")).into()
        }
        // `:` is the character after the digits.
        LockKind::Exclusive | LockKind::Shared => {
            vec![Compare::value(prefix, CompareOp::Greater, ":").with_prefix()]
        }
    }
}

/// No place of a lock is younger than this revision. True if there are none.
fn none_is_younger(prefix: &str, newest: i64) -> Compare {
    Compare::create_revision(prefix, CompareOp::Less, newest.saturating_add(1)).with_prefix()
}

/// The reply to a transaction that was sent alone or in a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct TxnReply {
    /// The revision of the store at that time. If the transaction wrote something, it is its own revision.
    revision: Option<i64>,
    succeeded: bool,
    pub(super) responses: Vec<TxnOpResponse>,
}

impl TxnReply {
    /// The replies to the transactions of a batch. They do not contain the revision.
    pub(super) fn parts(self) -> Vec<TxnReply> {
        let part = |response| match response {
            TxnOpResponse::Txn(inner) => Some(TxnReply { revision: self.revision, ..TxnReply::from(&inner) }),
            _ => None,
        };
        self.responses.into_iter().filter_map(part).collect()
    }
}

impl From<&TxnResponse> for TxnReply {
    fn from(answer: &TxnResponse) -> Self {
        TxnReply {
            revision: answer.header().map(|header| header.revision()),
            succeeded: answer.succeeded(),
            responses: answer.op_responses(),
        }
    }
}

/// A place that an owner requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The prefix of all places of the lock.
    pub(super) prefix: &'a str,
    pub(super) seat: &'a Seat,
    /// Whether to take a place even if others exclude it.
    pub(super) queues: bool,
}

/// Takes a place. An existing place is written again: this gives a new revision for a fencing token and keeps the
/// order.
///
/// `newest` is zero, or the revision of the youngest place when there was room for another one. etcd can compare
/// places, but cannot count them. So the client counts them, and the transaction takes a place only if no place was
/// taken since then.
pub(super) fn ask(epoch: &Epoch, wanted: &Wanted<'_>, newest: i64) -> Txn {
    let Wanted { prefix, seat, queues, .. } = *wanted;
    let refused = [epoch.look(), places(prefix)];
    let mut first = vec![epoch.is_ours(), none_is_younger(prefix, newest)];
    if newest > 0 {
        first.push(seat.is_unchanged());
    }
    let first =
        Txn::new().when(first).and_then([TxnOp::put(&*seat.place, &*seat.value, Some(epoch.lives_with()))]);
    let mut beside = vec![epoch.is_ours(), seat.is_unchanged()];
    match (queues, seat.kind) {
        (true, kind) => beside.extend(go_together(prefix, kind)),
        (false, LockKind::Exclusive) if seat.is_taken() => {}
        (false, LockKind::Shared) => beside.extend(all_between(prefix, "r\u{10ffff}", "t")),
        (false, LockKind::Exclusive | LockKind::Limited { .. }) => return first.or_else(refused),
    }
    let put_again = TxnOp::put(&*seat.place, &*seat.value, Some(epoch.lives_with().with_prev_key()));
    let beside = Txn::new().when(beside).and_then([put_again, places(prefix)]).or_else(refused);
    first.or_else([TxnOp::txn(beside)])
}

/// Releases a place of this process.
pub(super) fn leave(epoch: &Epoch, seat: &Seat) -> Txn {
    at_own_place(epoch, seat, TxnOp::delete(&*seat.place, None))
}

/// Keeps a place of this process taken for as long as this lease lives.
pub(super) fn keep(epoch: &Epoch, seat: &Seat, lease: i64) -> Txn {
    let with_lease = Some(PutOptions::new().with_lease(lease));
    at_own_place(epoch, seat, TxnOp::put(&*seat.place, kept_value(seat.kind), with_lease))
}

/// Writes the text that the holder at this place publishes. It ends with the holder's session at the latest.
pub(super) fn publish(epoch: &Epoch, seat: &Seat, name: &str, text: &str) -> Txn {
    at_own_place(epoch, seat, TxnOp::put(name, text, Some(epoch.lives_with())))
}

/// Does this if the place exists in the session of this process and belongs to its owner.
fn at_own_place(epoch: &Epoch, seat: &Seat, op: TxnOp) -> Txn {
    let place = &*seat.place;
    Txn::new()
        .when([epoch.is_ours(), epoch.has(place), seat.has_its_owner()])
        .and_then([op])
        .or_else([epoch.look(), TxnOp::get(place, None)])
}

/// Gives an exclusive place of an owner of this process a separate lease. It may already have one from an earlier
/// command whose reply was lost.
pub(super) fn hand_over(epoch: &Epoch, seat: &Seat, lease: i64) -> Txn {
    let place = &*seat.place;
    Txn::new()
        .when([epoch.is_ours(), seat.has_its_owner()])
        .and_then([TxnOp::put(place, &*seat.value, Some(PutOptions::new().with_lease(lease)))])
        .or_else([epoch.look(), TxnOp::get(place, None)])
}

/// Writes a place for its new owner, which has this seat, if the place has not changed since it was read. It keeps its
/// key and therefore its order, and the watches of waiters do not report the write.
pub(super) fn replace(epoch: &Epoch, seen: &Place, seat: &Seat) -> Txn {
    let is_as_seen = Compare::mod_revision(&*seat.place, CompareOp::Equal, seen.mod_revision);
    let put = TxnOp::put(&*seat.place, &*seat.value, Some(epoch.lives_with()));
    Txn::new().when([epoch.is_ours(), is_as_seen]).and_then([put]).or_else([epoch.look()])
}

/// Deletes places of any owner. Each is deleted only if it has not changed since it was read.
pub(super) fn evict(epoch: &Epoch, places: &[Place]) -> Txn {
    let each = places.iter().map(|place| {
        let is_as_seen = Compare::mod_revision(&*place.name, CompareOp::Equal, place.mod_revision);
        TxnOp::txn(Txn::new().when([is_as_seen]).and_then([TxnOp::delete(&*place.name, None)]))
    });
    Txn::new().when([epoch.is_ours()]).and_then(each.collect::<Vec<_>>()).or_else([epoch.look()])
}

/// Reads these places, and nothing else.
pub(super) fn read(places: &[String]) -> Txn {
    Txn::new().and_then(places.iter().map(|place| TxnOp::get(&**place, None)).collect::<Vec<_>>())
}

/// Removes the text that an owner has published. The value is its name, a line end, and a text that is not empty.
pub(super) fn unpublish(epoch: &Epoch, name: &str, owner: &str) -> Txn {
    let (from, to) = (format!("{owner}\n"), format!("{owner}\u{b}"));
    let is_its_own =
        [Compare::value(name, CompareOp::Greater, from), Compare::value(name, CompareOp::Less, to)];
    let delete = TxnOp::txn(Txn::new().when(is_its_own).and_then([TxnOp::delete(name, None)]));
    Txn::new().when([epoch.is_ours()]).and_then([delete])
}

/// Reads the places of a lock.
pub(super) fn look(prefix: &str) -> Txn {
    Txn::new().and_then([places(prefix)])
}

/// The reply to a guarded transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GuardedReply<T> {
    /// It was executed, or refused because of its content.
    Counts(T),
    /// Another connection of this process has the session, or the session is over. Nothing was done.
    NotOurSession,
    /// It cannot be read.
    Garbled,
}

/// The result of the release of a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    Done,
    /// The place belongs to another process, or differs from what was expected. This is the place, if there is one.
    Found(Option<Place>),
}

/// The reply to [`ask`].
pub(super) fn seen(
    answer: TxnReply,
    epoch: &Epoch,
    names: &Names,
    wanted: &Wanted<'_>,
) -> GuardedReply<QueueState> {
    let TxnReply { revision, mut succeeded, mut responses } = answer;
    if let [TxnOpResponse::Txn(inner)] = responses.as_slice() {
        (succeeded, responses) = (inner.succeeded(), inner.op_responses());
    }
    match responses.as_slice() {
        [TxnOpResponse::Put(_)] if succeeded => {
            let taken = revision.and_then(|revision| taken(epoch, names, wanted, revision));
            taken.map_or(GuardedReply::Garbled, GuardedReply::Counts)
        }
        [TxnOpResponse::Put(put), TxnOpResponse::Get(found)] if succeeded => {
            let existed = put.prev_key().is_some();
            GuardedReply::Counts(QueueState { written: revision, existed, ..QueueState::read(found, names) })
        }
        [TxnOpResponse::Get(session), TxnOpResponse::Get(found)] if is_session(session.kvs(), epoch) => {
            GuardedReply::Counts(QueueState::read(found, names))
        }
        [TxnOpResponse::Get(_), ..] => GuardedReply::NotOurSession,
        _ => GuardedReply::Garbled,
    }
}

/// A place that was taken when there was room for it. It holds the lock, whatever the other places are.
fn taken(epoch: &Epoch, names: &Names, wanted: &Wanted<'_>, revision: i64) -> Option<QueueState> {
    let place = Place {
        create_revision: revision,
        mod_revision: revision,
        lease: epoch.lease,
        ..Place::of(wanted.seat.place.as_bytes(), wanted.seat.value.as_bytes(), names)?
    };
    Some(QueueState { written: Some(revision), ..QueueState::of(vec![place]) })
}

/// The reply to [`look`].
pub(super) fn looked(answer: &TxnReply, names: &Names) -> Option<QueueState> {
    match answer.responses.as_slice() {
        [TxnOpResponse::Get(found)] => Some(QueueState::read(found, names)),
        _ => None,
    }
}

/// The reply to [`leave`], [`keep`], [`publish`] or [`hand_over`].
pub(super) fn left(answer: &TxnReply, epoch: &Epoch, names: &Names) -> GuardedReply<Left> {
    if answer.succeeded {
        return GuardedReply::Counts(Left::Done);
    }
    match answer.responses.as_slice() {
        [TxnOpResponse::Get(session), TxnOpResponse::Get(found)] if is_session(session.kvs(), epoch) => {
            GuardedReply::Counts(Left::Found(QueueState::read(found, names).places.pop()))
        }
        [TxnOpResponse::Get(_), ..] => GuardedReply::NotOurSession,
        _ => GuardedReply::Garbled,
    }
}

/// The reply to [`evict`] or [`unpublish`]: whether something was deleted.
pub(super) fn evicted(answer: TxnReply) -> GuardedReply<bool> {
    if answer.succeeded {
        return GuardedReply::Counts(answer.parts().iter().any(|place| place.succeeded));
    }
    GuardedReply::NotOurSession
}

/// The reply to [`replace`]: its revision. `None`: the place had changed.
pub(super) fn replaced(answer: &TxnReply, epoch: &Epoch) -> GuardedReply<Option<i64>> {
    match answer.responses.as_slice() {
        [TxnOpResponse::Put(_)] if answer.succeeded => {
            answer.revision.map_or(GuardedReply::Garbled, |revision| GuardedReply::Counts(Some(revision)))
        }
        [TxnOpResponse::Get(session)] if is_session(session.kvs(), epoch) => GuardedReply::Counts(None),
        [TxnOpResponse::Get(_)] => GuardedReply::NotOurSession,
        _ => GuardedReply::Garbled,
    }
}

/// The reply to [`read`]: for each owner, whether its place exists, belongs to it, and lives with the session of this
/// process.
pub(super) fn held<'a>(
    answer: &TxnReply,
    epoch: &Epoch,
    names: &Names,
    owners: impl Iterator<Item = &'a str>,
) -> Vec<bool> {
    let is_held = |kv: &KeyValue, owner| {
        kv.lease() == epoch.lease && Place::read(kv, names).is_some_and(|place| place.owner == owner)
    };
    let read = answer.responses.iter().zip(owners).map(|(response, owner)| match response {
        TxnOpResponse::Get(found) => found.kvs().first().is_some_and(|kv| is_held(kv, owner)),
        _ => false,
    });
    read.collect()
}

fn is_session(kvs: &[KeyValue], epoch: &Epoch) -> bool {
    kvs.first().is_some_and(|kv| kv.mod_revision() == epoch.revision)
}

/// The ttl of a lease that lasts for at least this time.
pub(super) fn lease_ttl(time: Duration) -> i64 {
    let seconds = super::config::whole_seconds(time).as_secs().max(1);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
