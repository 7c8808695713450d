//! The rules of the protocol that the model can break, each with its counterexample. `Some(rule)` in
//! [`Bounds::broken`](crate::Bounds::broken) makes a mutant.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The reply to an `enter` that took a free lock while its process held it means "lost meanwhile", and not "still
    /// held".
    FreshIsALoss,
    /// Events after the deadline change nothing, because a loss is final.
    LossIsFinal,
    /// An `enter` that finds its own token makes the lease last a whole ttl from then.
    MineExtends,
    /// A lease is counted from the instant before its command was sent, not from the reply.
    ReplyCountsFromItsRequest,
    /// A lease that was granted by a push is counted from the grant, not from the push's arrival.
    PushCountsFromItsGrant,
    /// A grant that is older than the latest place in the queue is ignored.
    StalePushIgnored,
    /// A renewal never shortens a lease.
    RenewalNeverShortens,
    /// The reply "not held" to a repeated `leave` is not reported, because the first `leave` may have been executed.
    RepeatedLeaveIsNotReported,
    /// After a change of the link, every `leave` without a reply is sent again.
    LeavesAreRepeated,
    /// The old connection is killed before `leave` is sent again on the new one.
    KillComesFirst,
    /// If the old connection cannot be killed, `leave` is sent once more when none of its commands can still arrive.
    LeaveOnceMoreWithoutKill,
    /// A cancelled waiter releases the lock if it was granted meanwhile.
    CancelTestsTheKey,
    /// A release with `min_hold` replaces the token.
    MinHoldReplacesTheToken,
    /// Each lease has its own token.
    TokensAreFresh,
    /// `leave` removes the key only if the key contains its token.
    LeaveCompares,
    /// A lease is not passed on within a process after its `leave` was sent.
    NoHandOnAfterLeave,
    /// A lost lease is not passed on within a process.
    NoHandOnAfterLoss,
    /// A lease reserves a fencing token for each of its holders.
    TokensAreReserved,
    /// The fencing token of a grant is created at the grant, not when its waiter queued.
    FenceIsDrawnAtTheGrant,
    /// A process that acquires the lock without a grant leaves the queue.
    DirectAcquireLeavesTheQueue,
    /// Dead entries in the queue are skipped.
    DeadEntriesAreSkipped,
    /// A waiter asks at every heartbeat, not only when the holder's lease ends.
    WaitersKeepAsking,
}

impl Rule {
    /// All rules.
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
