//! Translates between the types of the engine and of the store.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    AcquireMode, AcquireReply, Clocks, CurrentHolder, Demand, Failure, LeaseEnds, ListPage, LockKind,
    OpResult, PollPauses, ReleaseReply, Remaining, RenewReply, ServerTime, Token, Tuning, Wanted, op,
};
use crate::error::LockError;
use crate::protocol::Fences;
use crate::protocol::session::Session;
use distlock_store::engine::{HolderRelease, SOMEBODY};
use distlock_store::{
    self as store, Abilities, Ability, Acquire, Fencing, LeaseRule, Owner, Queue, Release, Renew, Replace,
    ReplaceReply, StoreError, StoredLock, StoredPage, Waiting,
};

/// The common part of the requests to one store.
#[derive(Debug)]
pub(super) struct Translator {
    pub(super) client: Arc<str>,
    pub(super) prefix: String,
    waiting: Waiting,
    granularity: Duration,
    tuning: Tuning,
}

impl Translator {
    pub(super) fn new(client: Arc<str>, prefix: String, abilities: &Abilities) -> Self {
        let granularity = match abilities.lease {
            LeaseRule::PerLock { granularity } => granularity.max(Duration::from_millis(1)),
            LeaseRule::Session => Duration::from_millis(1),
        };
        let leases = match abilities.lease {
            LeaseRule::PerLock { .. } => LeaseEnds::WithTtl { granularity },
            LeaseRule::Session => LeaseEnds::WithSession(Arc::new(Session::default())),
        };
        let most_fences = match abilities.fencing {
            Some(Fencing::OneByOne) => 1,
            Some(Fencing::Blocks) | None => Tuning::default().most_fences,
        };
        // A store of this kind has no gaps, and its times are only known as the moment of our question.
        let (poll_gap, clocks) = (Duration::ZERO, Clocks::Many);
        let (wanted, fences) = (Wanted::NeverTold, Fences::OfTheStore);
        let polls = match abilities.waiting {
            Waiting::PolledEvery { first, longest } => {
                let first = first.max(Duration::from_millis(1));
                PollPauses { first, longest: longest.max(first) }
            }
            _ => PollPauses::default(),
        };
        let tuning =
            Tuning { poll_gap, clocks, leases, most_fences, wanted, fences, polls, ..Tuning::default() };
        Translator { client, prefix, waiting: abilities.waiting, granularity, tuning }
    }

    pub(super) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.tuning.leases.session()
    }

    /// The key as the store knows it.
    pub(super) fn full(&self, key: &str) -> Arc<str> {
        format!("{}{key}", self.prefix).into()
    }

    /// The key as the engine knows it.
    pub(super) fn logical(&self, key: &str) -> Option<Arc<str>> {
        key.strip_prefix(&*self.prefix).map(Arc::from)
    }

    /// A page of locks, without those of managers with another prefix.
    pub(super) fn page(&self, page: StoredPage) -> ListPage {
        let StoredPage { locks, more } = page;
        let next = locks.last().filter(|_| more).and_then(|(key, _)| self.logical(key));
        let ours = |(key, lock): (String, StoredLock)| Some((self.logical(&key)?, lock.longest_first()));
        ListPage { locks: locks.into_iter().filter_map(ours).collect(), next, ..ListPage::default() }
    }

    fn owner(&self, token: Token) -> Owner {
        Owner::of(&self.client, token)
    }

    /// Never less than was asked for, and what the store can tell apart.
    fn rounded(&self, d: Duration) -> Duration {
        round_up(d, self.granularity)
    }

    pub(super) fn ask(&self, key: &str, op: op::Ask) -> Acquire {
        match op {
            op::Ask::Plain(op::TryAcquire { token, ttl }) => {
                Acquire::new(self.full(key), &self.owner(token), self.rounded(ttl))
            }
            op::Ask::Full(op) => self.acquire(key, op),
        }
    }

    pub(super) fn acquire(&self, key: &str, op: op::Acquire) -> Acquire {
        let op::Acquire { token, kind, ttl, claim, mode, fences } = op;
        let queues = mode != AcquireMode::Try && self.waiting.is_told();
        let entry_ttl = self.rounded(self.tuning.queue_entry_ttl);
        let queue = queues.then(|| Queue::new(self.rounded(claim), entry_ttl));
        let mut request = Acquire::new(self.full(key), &self.owner(token), self.rounded(ttl));
        (request.kind, request.fences, request.queue) = (kind, fences, queue);
        request
    }

    pub(super) fn replace(&self, key: &str, op: &op::Replace) -> Replace {
        let op::Replace { token, ttl, fences, holder } = op;
        let (holder, owner) = (Owner::of_text(holder), self.owner(*token));
        let mut request = Replace::new(self.full(key), &holder, &owner, self.rounded(*ttl));
        request.fences = *fences;
        request
    }

    pub(super) fn renew(&self, key: &str, op: op::Renew) -> Renew {
        let op::Renew { token, kind, ttl, .. } = op;
        let mut request = Renew::new(self.full(key), &self.owner(token), self.rounded(ttl));
        request.kind = kind;
        request
    }

    pub(super) fn release(&self, key: &str, op: op::Release) -> Release {
        let op::Release { token, keep_taken_for, .. } = op;
        let mut request = Release::new(self.full(key), &self.owner(token));
        request.keep = keep_taken_for.map(|time| self.rounded(time));
        request
    }

    /// The answer to a request that the store was asked at `asked`.
    pub(super) fn acquired(
        request: &Acquire,
        reply: store::AcquireReply,
        asked: ServerTime,
    ) -> OpResult<AcquireReply> {
        let server_time = Some(asked);
        let fence = |first| fence_asked_for(&request.key, request.fences, first);
        Ok(match reply {
            store::AcquireReply::Acquired { fence: first } => {
                AcquireReply::Acquired { server_time, fence: fence(first)? }
            }
            store::AcquireReply::AlreadyHeld { fence: first } => {
                AcquireReply::AlreadyHeld { server_time, fence: fence(first)? }
            }
            store::AcquireReply::Busy(busy) if busy.holder.as_deref() == Some(request.owner.as_str()) => {
                let owner = &request.owner;
                return Err(broken(format!(
                    "`{}` is busy, held by {owner}, which is the caller itself",
                    request.key
                )));
            }
            store::AcquireReply::Busy(busy) => AcquireReply::Busy {
                server_time,
                holder: current_holder(busy.holder, busy.release),
                remaining: busy.remaining.map_or(Remaining::Unknown, Remaining::For),
                front: busy.front,
            },
            store::AcquireReply::WrongKind { found } => {
                AcquireReply::WrongKind { found: found.to_string().into() }
            }
        })
    }

    /// The same for a lock that was to be taken over.
    pub(super) fn replaced(
        request: &Replace,
        reply: ReplaceReply,
        asked: ServerTime,
    ) -> OpResult<AcquireReply> {
        let server_time = Some(asked);
        let fence = |first| fence_asked_for(&request.key, request.fences, first);
        Ok(match reply {
            ReplaceReply::Replaced { fence: first } => {
                AcquireReply::Acquired { server_time, fence: fence(first)? }
            }
            ReplaceReply::AlreadyHeld { fence: first } => {
                AcquireReply::AlreadyHeld { server_time, fence: fence(first)? }
            }
            ReplaceReply::NotHeld => AcquireReply::NotHeld,
        })
    }

    pub(super) fn renewed(reply: store::RenewReply, asked: ServerTime) -> RenewReply {
        match reply {
            store::RenewReply::Renewed => RenewReply::Renewed { server_time: asked },
            store::RenewReply::NotHeld => RenewReply::NotHeld,
        }
    }

    pub(super) fn released(reply: store::ReleaseReply) -> ReleaseReply {
        match reply {
            store::ReleaseReply::Released => ReleaseReply::Released { gap: false },
            store::ReleaseReply::NotHeld => ReleaseReply::NotHeld,
        }
    }
}

fn fence_asked_for(key: &str, fences: u32, first: Option<u64>) -> OpResult<Option<u64>> {
    match first {
        _ if fences == 0 => Ok(None),
        Some(first) => Ok(Some(first)),
        None => Err(broken(format!("no fencing token for `{key}`, although the request needs one"))),
    }
}

fn current_holder(text: Option<String>, release: HolderRelease) -> CurrentHolder {
    let judged = CurrentHolder::from(text.as_deref().unwrap_or(SOMEBODY));
    match release {
        HolderRelease::JudgedByText => judged,
        HolderRelease::Reported => CurrentHolder { hands_over: true, ..judged },
        HolderRelease::NotReported => CurrentHolder { hands_over: false, ..judged },
    }
}

/// The store breaks a rule, so its state is not known.
fn broken(text: String) -> StoreError {
    StoreError::new(Failure::Unknown, format!("the store breaks its contract: {text}"))
}

/// Refuses what the store cannot do.
pub(super) fn check(abilities: &Abilities, store: &str, demand: &Demand) -> Result<(), LockError> {
    let Demand { kind, ttl, fenced, min_hold, .. } = *demand;
    let refused = |what: String| Err(LockError::options(format!("{store} {what}")));
    if !abilities.keeps(kind) {
        let ability = if kind == LockKind::Shared { Ability::Shared } else { Ability::Limited };
        return refused(format!("does not keep {kind}{}", abilities.reason(ability)));
    }
    if fenced && abilities.fencing.is_none() {
        return refused(format!("has no fencing tokens{}", abilities.reason(Ability::Fencing)));
    }
    if min_hold.is_some() && !abilities.min_hold {
        let reason = abilities.reason(Ability::MinHold);
        return refused(format!("cannot keep a key after its release (`min_hold`){reason}"));
    }
    let longest = ttl.max(min_hold.unwrap_or_default());
    match abilities.longest_ttl.filter(|most| longest > *most) {
        Some(most) => {
            refused(format!("keeps a lock for {most:?} at most: a ttl or `min_hold` of {longest:?}"))
        }
        None => Ok(()),
    }
}

/// The next multiple of `granularity`.
fn round_up(d: Duration, granularity: Duration) -> Duration {
    let steps = d.as_nanos().div_ceil(granularity.as_nanos().max(1)).max(1);
    let nanos = steps.saturating_mul(granularity.as_nanos());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
