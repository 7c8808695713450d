//! Mistakes of authors of stores, one for each way to break the contract. They prove that its suite finds them.

/// A mistake of a [`ToyServer`](crate::ToyServer) or a [`ToyStore`](crate::ToyStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Checks whether the lock is free, and acquires it a moment later.
    LooksAndThenTakes,
    /// A release is executed a moment after its reply.
    ReleasesLater,
    /// Leases end 50 ms early.
    EndsEarly,
    /// Ttls are cut to whole seconds.
    CutsToSeconds,
    /// The ttl is read in a unit that is ten times shorter.
    TakesAnotherUnit,
    /// The ttl is counted from the previous request.
    CountsFromBeforeTheCall,
    /// A lease ends when the lease that was released before it would have ended.
    CountsFromAnEarlierLease,
    /// The server's clock is 2 % fast.
    ClockIsTwoPercentFast,
    /// The server's clock is 10 % fast.
    ClockIsTenPercentFast,
    /// `Acquired`, even if another owner has the lock.
    HeldIsAcquired,
    /// `AlreadyHeld`, although the lock was lost meanwhile.
    AcquiredIsHeld,
    /// Other requests get the name of a holder that does not exist.
    NamesSomebodyElse,
    /// A holder that asks again gets its own name as the obstacle.
    OwnersAreInTheirOwnWay,
    /// A repeated acquisition sets the lease to its ttl, even if the lease was longer.
    AcquireShortens,
    /// Replaces any holder.
    ReplacesAnybody,
    /// The new owner gets the rest of the lease of the one that it replaces.
    ReplaceKeepsTheEnd,
    /// All waiters lose their places when the holder is replaced.
    ReplaceForgetsTheQueue,
    /// A renewal sets the lease to its ttl, even if the lease was longer.
    RenewShortens,
    /// A renewal acquires a free lock.
    RenewCreates,
    /// `Renewed`, even if another owner has the lock.
    RenewSaysYes,
    /// `Renewed`, and the lease is as long as before.
    RenewDoesNothing,
    /// A release frees the lock of any owner.
    ReleasesForAnybody,
    /// A release by another process than the owner's frees nothing.
    ReleasesOnlyItsOwn,
    /// A release leaves the owner in the queue.
    ReleaseKeepsPlace,
    /// A release grants the lock to no waiter.
    ReleaseServesNobody,
    /// A forced release grants the lock to no waiter.
    ForceServesNobody,
    /// A key is free after its release, although it should stay taken.
    IgnoresKeep,
    /// An owner that was granted the lock stays in the queue.
    GrantKeepsPlace,
    /// A grant lasts for an hour.
    IgnoresClaim,
    /// The owner of a grant does not hold the lock before it has asked.
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
    /// A command is executed even if it arrives too late.
    CarriesOutLateCommands,
    /// A command of a lost connection is sent again over the next one.
    SendsAgain,
    /// The work of the store ends with its connection.
    RunReturns,
    /// A command for several keys also tries those behind a busy one.
    TriesBehindABusyKey,
    /// The replies for several keys have the order of the keys, not of the requests.
    AnswersInOrderOfKeys,
    /// A renewal of several leases acquires the locks that are free.
    RenewAllCreates,
    /// Lists leave out the last lock of a page.
    ListsTooFew,
    /// Lists show the keys with every beginning.
    ListsEverything,
    /// The text of a former holder is shown as that of the next.
    TextOutlivesItsLease,
    /// A request for a lock that is held removes the text of its holder.
    AskingUnpublishes,
    /// Any owner removes the text of the holder.
    UnpublishesForAnybody,
    /// A diagnosis ends every lease.
    ExaminationEndsLeases,
}
