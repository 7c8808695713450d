//! Mistakes that authors of stores make, one for each way to break the contract: the proof that its suite looks.

/// What a [`ToyServer`](crate::ToyServer), or a [`ToyStore`](crate::ToyStore), is to do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Looks whether the lock is free, and takes it a moment later.
    LooksAndThenTakes,
    /// A release is carried out a moment after it was answered.
    ReleasesLater,
    /// Leases end 50 ms early.
    EndsEarly,
    /// Ttls are cut to whole seconds.
    CutsToSeconds,
    /// The ttl is taken for tenths of what it is.
    TakesAnotherUnit,
    /// The ttl counts from what was asked before.
    CountsFromBeforeTheCall,
    /// The server's clock is 2 % fast.
    ClockIsTwoPercentFast,
    /// The server's clock is 10 % fast.
    ClockIsTenPercentFast,
    /// `Acquired`, whoever had the lock before.
    HeldIsAcquired,
    /// `AlreadyHeld`, although the lock was lost meanwhile.
    AcquiredIsHeld,
    /// Others are told of a holder that does not exist.
    NamesSomebodyElse,
    /// The holder is told that it is in its own way.
    OwnersAreInTheirOwnWay,
    /// A repeated acquire makes the lease as long as it says, although it was longer.
    AcquireShortens,
    /// Replaces the holder, whoever it is.
    ReplacesAnybody,
    /// A renewal makes the lease as long as it says, although it was longer.
    RenewShortens,
    /// A renewal takes a lock that is free.
    RenewCreates,
    /// `Renewed`, whoever has the lock.
    RenewSaysYes,
    /// `Renewed`, and the lease is as long as before.
    RenewDoesNothing,
    /// A release frees the lock, whoever has it.
    ReleasesForAnybody,
    /// A release leaves the owner in the queue.
    ReleaseKeepsPlace,
    /// A release lets nobody in.
    ReleaseServesNobody,
    /// A key is free when it is released, although it was to stay taken.
    IgnoresKeep,
    /// Who is granted the lock stays in the queue.
    GrantKeepsPlace,
    /// A grant lasts for an hour.
    IgnoresClaim,
    /// A granted lock is not its owner's before it has asked.
    GrantsToNobody,
    /// Every grant is reported as new.
    GrantsAreAlwaysNew,
    /// Places last as long as the server.
    PlacesStay,
    /// Nothing is reported.
    NotifiesNobody,
    /// Every third report is lost.
    LosesNotifications,
    /// A block of fencing tokens counts as one.
    ReusesBlocks,
    /// The token of a lease that has ended is handed out again.
    ReusesFencesOfTheExpired,
    /// The last fencing token is not written to disk.
    FencesBeginAnewAfterARestart,
    /// A command is carried out whenever it arrives.
    CarriesOutLateCommands,
    /// A command whose connection was lost is sent again over the next one.
    SendsAgain,
    /// The last one on a page is left out of lists.
    ListsTooFew,
    /// An examination ends every lease.
    ExaminationEndsLeases,
}
