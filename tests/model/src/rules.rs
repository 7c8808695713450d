//! The rules of the protocol that the model can break, each by its counterexample: `Some(rule)` in
//! [`Bounds::broken`](crate::Bounds::broken) is a mutant.

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// An `enter` that took a free lock while its process held it says "lost in between", not "still mine".
    FreshIsALoss,
    /// What comes after the deadline changes nothing: a loss is final.
    LossIsFinal,
    /// An `enter` that finds its own token makes the lease last a whole ttl from then.
    MineExtends,
    /// A lease is counted from the instant before its command was sent, not from the reply.
    ReplyCountsFromItsRequest,
    /// A lease that was granted by a push is counted from the grant, not from the push's arrival.
    PushCountsFromItsGrant,
    /// A grant from before the latest place in the queue is not believed.
    StalePushIgnored,
    /// A renewal never shortens a lease.
    RenewalNeverShortens,
    /// "Not yours" to a repeated `leave` says nothing: the first one may have been carried out.
    RepeatedLeaveIsNotReported,
    /// After a link change, every `leave` without an answer is sent again.
    LeavesAreRepeated,
    /// The old connection is killed before `leave` is sent again on the new one.
    KillComesFirst,
    /// Where it cannot be killed, `leave` is sent once more when nothing of the old connection can arrive.
    LeaveOnceMoreWithoutKill,
    /// A cancelled waiter gives back the lock if it had been granted meanwhile.
    CancelTestsTheKey,
    /// A release that keeps others out replaces the token.
    MinHoldReplacesTheToken,
    /// Each lease has a token of its own.
    TokensAreFresh,
    /// `leave` removes the key only if it carries its token.
    LeaveCompares,
    /// A lease is not handed on within a process once its `leave` was sent.
    NoHandOnAfterLeave,
    /// A lost lease is not handed on within a process.
    NoHandOnAfterLoss,
    /// A lease reserves a fencing token for each of its holders.
    TokensAreReserved,
    /// The fencing token of a grant is drawn when it is granted, not when its waiter queued.
    FenceIsDrawnAtTheGrant,
    /// Who takes the lock itself leaves the queue.
    DirectAcquireLeavesTheQueue,
    /// The dead in the queue are passed over.
    DeadEntriesAreSkipped,
    /// A waiter asks every heartbeat, not only when the holder's lease ends.
    WaitersKeepAsking,
}

impl Rule {
    /// Each of them.
    pub const ALL: [Rule; 22] = [
        Rule::FreshIsALoss,
        Rule::LossIsFinal,
        Rule::MineExtends,
        Rule::ReplyCountsFromItsRequest,
        Rule::PushCountsFromItsGrant,
        Rule::StalePushIgnored,
        Rule::RenewalNeverShortens,
        Rule::RepeatedLeaveIsNotReported,
        Rule::LeavesAreRepeated,
        Rule::KillComesFirst,
        Rule::LeaveOnceMoreWithoutKill,
        Rule::CancelTestsTheKey,
        Rule::MinHoldReplacesTheToken,
        Rule::TokensAreFresh,
        Rule::LeaveCompares,
        Rule::NoHandOnAfterLeave,
        Rule::NoHandOnAfterLoss,
        Rule::TokensAreReserved,
        Rule::FenceIsDrawnAtTheGrant,
        Rule::DirectAcquireLeavesTheQueue,
        Rule::DeadEntriesAreSkipped,
        Rule::WaitersKeepAsking,
    ];
}
