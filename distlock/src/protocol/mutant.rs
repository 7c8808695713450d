//! Faults that can be switched on in the simulation, one at a time, to prove that it would notice them.
//! Outside tests every `mutated!(…)` is the constant `false`.

/// True while the named fault is switched on.
macro_rules! mutated {
    ($fault:ident) => {{
        #[cfg(test)]
        {
            $crate::protocol::mutant::is_on($crate::protocol::mutant::Mutant::$fault)
        }
        #[cfg(not(test))]
        {
            false
        }
    }};
}
pub(crate) use mutated;

/// One broken rule each; the names say what the broken code does.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    AcquiredWhileHeldTakenAsAlreadyHeld,
    AlreadyHeldDoesNotExtend,
    DeadlineFromReceipt,
    GrantDeadlineFromReceipt,
    StalePushSaturates,
    RenewShortens,
    ResentReleaseReported,
    NoCompensationAfterLinkChange,
    CancelWithoutTestingKey,
    MinHoldKeepsToken,
    TokenReused,
    HandOnAfterLoss,
    HandOnAfterRelease,
    GrantReservesOneChainUsesTwo,
    TimerIsRemainingOnly,
    HeartbeatLongerThanClaim,
    PairKeptOverReconnect,
    NoDrift,
    ReleaseWithoutCompare,
    StaleReplyBelieved,
    ReplyToWrongRequest,
    FenceMintedAtEnqueue,
    FenceWithoutMaximum,
    NoRecheckAfterResubscription,
    DeadEntriesNotSkipped,
    PollWaiterDropped,
    UnknownPushIgnored,
    EntryLeftAfterDirectAcquire,
    IoErrorReportedAsLost,
    RenewCreates,
    ForceReleaseNotReported,
    StepIgnored,
    CompensationBeforeKill,
    PublishCountTrusted,
    MembersOutliveTheirMarker,
    SharedChainUnlimited,
    RenewalChecksOnlyTheMarker,
    RenewalChecksOnlyTheMembers,
    NoServeAfterCancel,
    ReaderPassesWriter,
    LimitedTimerFromMarker,
    WrongKindLeavesEntry,
    AttemptOverwritten,
    ReadersPutOffRenewal,
    FollowerAsks,
    FollowerNotCompensated,
    AcquireAllGoesOn,
    NoServeAfterLoss,
    LateRefusalReported,
    TooLateNotCompensated,
    NoRenewExtendedByOthers,
    NoRenewTakesWholeLease,
    MaxHoldIgnored,
    PendingReleaseGivenUp,
    BusyForUnavailable,
    QueuedNotCancelled,
    LostLeaseNotReleased,
    NoRenewalAfterStep,
    ExtensionForgotten,
    ShortLeaseHandedOn,
    OldRefusalBelieved,
    GrantRenewedLate,
    MostFencesAssumed,
    GrantForgetsOldReplies,
    ImpatientNotDismissed,
    ReplyBeforeStepIsAStep,
    LateAnswerNotCompensated,
    RefusalIsNothingDone,
    ArmedWhileChecking,
    MinHoldDroppedAtLoss,
    LaterDismissesWaiters,
    LaterReleaseGivenUp,
    MaxWaitersIgnored,
    UnclaimedLeaseRenewed,
    HeartbeatOfLostSessionCounts,
    AnswerOfLostSessionBelieved,
    SessionLeaseLeftToItself,
    // Of the quorum.
    HalfIsEnough,
    ErrorsAreConsent,
    MinorityNotReleased,
    NoPendingReleases,
    YoungServersCount,
    ProposalAlwaysTaken,
    ServerStepIgnored,
    LostNotReleasedElsewhere,
    BlockGivenTwice,
    BlockBelowAnother,
    TakenFromAnotherRound,
    LateCommandsForgotten,
    NothingRepaired,
    RepairedOnce,
    VanishedMarkIgnored,
    CounterNotHandedOver,
    LongestTtlIsOurs,
    ClocksNotCompared,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn is_on(fault: Mutant) -> bool {
    ON.get() == Some(fault)
}

/// Switches a fault on for this thread, or all of them off.
#[cfg(test)]
pub(crate) fn switch(fault: Option<Mutant>) {
    ON.set(fault);
}
