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

/// One broken rule each; the name says what the broken code does.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    AcquiredWhileHeldTakenAsAlreadyHeld,
    AlreadyHeldDoesNotExtend,
    DeadlineFromReceipt,
    GrantDeadlineFromReceipt,
    StalePushSaturates,
    FarFenceBelieved,
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
    JoinedThoughContended,
    JoinedThoughOneHasLeft,
    JoinedThoughWanted,
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
    SilenceOfOneKeyCounts,
    QueuedNotCancelled,
    LostLeaseNotReleased,
    NoRenewalAfterStep,
    ExtensionForgotten,
    ShortLeaseHandedOn,
    TermOnFormerLease,
    OldRefusalBelieved,
    GrantRenewedLate,
    MostFencesAssumed,
    GrantForgetsOldReplies,
    ImpatientNotDismissed,
    LateAnswerNotCompensated,
    RefusalIsNothingDone,
    ArmedWhileChecking,
    MinHoldDroppedAtLoss,
    LaterDismissesWaiters,
    LaterReleaseGivenUp,
    RefusedReleaseGivenUp,
    MaxWaitersIgnored,
    UnclaimedLeaseRenewed,
    UnclaimedTakesWholeLease,
    NewestClaimAssumed,
    HeartbeatOfLostSessionCounts,
    AnswerOfLostSessionBelieved,
    SessionLeaseLeftToItself,
    OvertakingForgotten,
    MinHoldOvertaken,
    LingeringBeginsAnew,
    LingeringProlongs,
    LingeringEndForgotten,
    LingersToTheEnd,
    LateKeeperLeftAlone,
    LingersWithoutPushes,
    LingersAfterAWait,
    WantedIgnored,
    WantedForgotten,
    FenceUsedAgain,
    HandedOverReleased,
    ReplacedWithoutCompare,
    HandedOverForgotten,
    LastRenewalPassedOn,
    TakeOverAcquires,
    UnansweredTakeOverUnavailable,
    TakenOverLingers,
    FollowerWaitsAlone,
    FinalReplyEndsAll,
    // Rules of the driver.
    CommandDroppedWithCaller,
    CommandLeftToCaller,
    RearmForgotten,
    DroppedHandleKept,
    DroppedRequestWaits,
    NoticedGrantNotClaimed,
    OnlyFirstAnswerNoticed,
    HandedOverUnconfirmed,
    // Rules of the quorum.
    HalfIsEnough,
    ErrorsAreConsent,
    MinorityNotReleased,
    NoPendingReleases,
    YoungServersCount,
    ProposalAlwaysTaken,
    ServerStepIgnored,
    LostNotReleasedElsewhere,
    EarlierRenewalCounts,
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
    QueueServerSilenceIgnored,
    SilentServersAwaited,
    QueueServerNotKept,
    NobodyStandsAside,
    LostQueueNotLeft,
    ReleaserNotLast,
    // Rules of deadlocks.
    DeadlockAfterOneLook,
    DeadlockRecordBelieved,
    DeadlockBeatIgnored,
    DeadlockEndsAll,
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

/// Breaks one rule after the other, and searches the seeds for a run that violates it. `shows` returns the report of a
/// run with this seed, if the run shows the broken rule. Without the fault, the same run must show nothing.
///
/// # Panics
/// If a broken rule is not found, or if a run shows it without the fault, too.
#[cfg(test)]
pub(crate) fn hunt<'a, C>(
    cases: &'a [C],
    seeds: u64,
    fault: impl Fn(&C) -> Mutant,
    shows: impl Fn(&'a C, u64) -> Option<String>,
) {
    let mut missed = Vec::new();
    println!("{:<30} {:>6}  found by", "broken rule", "seed");
    for case in cases {
        let fault = fault(case);
        switch(Some(fault));
        let found = (0..seeds).find_map(|seed| Some((seed, shows(case, seed)?)));
        switch(None);
        match found {
            Some((seed, what)) => {
                println!("{:<30} {seed:>6}  {what}", format!("{fault:?}"));
                let otherwise = shows(case, seed);
                assert_eq!(otherwise, None, "{fault:?}: without the fault, seed {seed} shows it, too");
            }
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not found within {seeds} seeds: {missed:?}");
}
