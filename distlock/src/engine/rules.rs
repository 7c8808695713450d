//! The engine's rules that a line can say, one by one.
//!
//! Each of them is broken on purpose in the tests, by the fault named in it: the simulation, or a test of its own,
//! must notice.

use std::time::Duration;

use super::{LOCAL_CHAIN_TIME, LONGEST_CLAIM, Want};
use crate::lease_cell::LeaseCell;
use crate::protocol::{Failure, ServerTime, Time, mutated};

// Answers and their order.

/// An answer to a command that was sent before one that was answered already says nothing.
pub(super) fn is_stale(seq: u64, seen: u64) -> bool {
    seq < seen && !mutated!(StaleReplyBelieved)
}

/// A refusal of what was sent before the lease was asked for is about an earlier lease of the same token.
pub(super) fn is_about_an_earlier_lease(sent: Time, asked: Time) -> bool {
    sent < asked && !mutated!(OldRefusalBelieved)
}

/// A lock that was free although we hold it was lost in between.
pub(super) fn fresh_while_held_is_a_loss() -> bool {
    !mutated!(AcquiredWhileHeldTakenAsAlreadyHeld)
}

/// What was applied late, for nobody, is given back.
pub(super) fn late_answers_are_compensated() -> bool {
    !mutated!(LateAnswerNotCompensated)
}

/// So is a lease that had run out when its answer came.
pub(super) fn leases_that_come_too_late_are_compensated() -> bool {
    !mutated!(TooLateNotCompensated)
}

/// So is the queue entry of an attempt whose key is of another kind.
pub(super) fn wrong_kind_is_compensated() -> bool {
    !mutated!(WrongKindLeavesEntry)
}

/// So is what a command for several keys did behind the first that it did not get.
pub(super) fn followers_are_compensated() -> bool {
    !mutated!(FollowerNotCompensated)
}

/// So is an entry in the queue that nobody wants any more.
pub(super) fn queue_entries_are_cancelled() -> bool {
    !mutated!(QueuedNotCancelled)
}

/// A server that refuses for now is asked again; only one that refuses for good ends the wait.
pub(super) fn ends_the_wait(failure: Failure) -> bool {
    failure == Failure::Refused || (failure == Failure::Later && mutated!(LaterDismissesWaiters))
}

// Deadlines.

/// A lease is counted from the instant before it was asked for.
pub(super) fn counted_from(sent: Time, now: Time) -> Time {
    if mutated!(DeadlineFromReceipt) { now } else { sent }
}

/// A grant is counted from when it was made, not from when its news came.
pub(super) fn grants_are_counted_from_when_they_were_made() -> bool {
    !mutated!(GrantDeadlineFromReceipt)
}

/// How long after `known` a grant was made, in microseconds; `None`: before, so it is old news.
pub(super) fn made_after(known: ServerTime, granted: ServerTime) -> Option<u64> {
    granted.0.checked_sub(known.0).or(if mutated!(StalePushSaturates) { Some(0) } else { None })
}

/// What was known of the server's clock ends with the link.
pub(super) fn clock_is_forgotten_with_the_link() -> bool {
    !mutated!(PairKeptOverReconnect)
}

/// A grant that was made later than now shows that the server's clock was set.
pub(super) fn is_from_the_future(granted: Time, now: Time) -> bool {
    granted > now && !mutated!(PairKeptOverReconnect)
}

/// Leases end earlier when the server's clock has gone forward.
pub(super) fn steps_shorten_leases() -> bool {
    !mutated!(StepIgnored)
}

/// After a step the server is asked at once how long the leases last.
pub(super) fn steps_are_followed_by_renewals() -> bool {
    !mutated!(NoRenewalAfterStep)
}

pub(super) fn max_hold(want: &Want) -> Option<Duration> {
    want.max_hold.filter(|_| !mutated!(MaxHoldIgnored))
}

/// A holder who does not renew has its own ttl, even on a lease that lasts longer.
pub(super) fn ends_with_its_own_ttl() -> bool {
    !mutated!(NoRenewTakesWholeLease)
}

/// Others' renewals do not keep a holder that does not renew.
pub(super) fn others_renewals_do_not_count() -> bool {
    !mutated!(NoRenewExtendedByOthers)
}

/// The entry of a former question stands in the queue until this one is carried out, which it may not be.
pub(super) fn certain_claim(standing: Option<Duration>, claim: Duration) -> Duration {
    standing.filter(|_| !mutated!(NewestClaimAssumed)).map_or(claim, |standing| standing.min(claim))
}

// Tokens.

/// A token is never used twice.
pub(super) fn tokens_are_new() -> bool {
    !mutated!(TokenReused)
}

/// Of several commands each may be the one that was carried out: the fewest fencing tokens are certain.
pub(super) fn certain_fences(before: Option<u32>, now: u32) -> u32 {
    match before {
        Some(before) if mutated!(MostFencesAssumed) => before.max(now),
        Some(before) => before.min(now),
        None => now,
    }
}

/// A grant comes with as many fencing tokens as were reserved for it.
pub(super) fn granted_fences(reserved: u64) -> u64 {
    if mutated!(GrantReservesOneChainUsesTwo) { reserved + 1 } else { reserved }
}

/// Answers from before a grant say nothing about its lease.
pub(super) fn answered_before_the_grant(seen: u64) -> u64 {
    if mutated!(GrantForgetsOldReplies) { 0 } else { seen }
}

/// A grant that nobody here waits for is given back.
pub(super) fn unknown_grants_are_given_back() -> bool {
    !mutated!(UnknownPushIgnored)
}

// Asking.

/// A key behind the first of a command for several never asks by itself: what it got would be held before those in
/// front of it.
pub(super) fn followers_do_not_ask() -> bool {
    !mutated!(FollowerAsks)
}

/// Somebody who asks with another token keeps it.
pub(super) fn attempts_are_kept() -> bool {
    !mutated!(AttemptOverwritten)
}

/// A waiter asks again before a grant to it would end: within four fifths of the claim.
pub(super) fn heartbeat(claim: Duration) -> Duration {
    let fifths = if mutated!(HeartbeatLongerThanClaim) { 10 } else { 4 };
    claim * fifths / 5
}

/// What the holder's lease has left is not all that a waiter waits for: the holder may let go earlier.
pub(super) fn holders_may_let_go_early() -> bool {
    !mutated!(TimerIsRemainingOnly)
}

/// Pushes may have been missed while nobody listened.
pub(super) fn new_subscriptions_are_followed_by_a_look() -> bool {
    !mutated!(NoRecheckAfterResubscription)
}

// Waiting here.

pub(super) fn max_waiters(want: &Want) -> Option<u32> {
    want.max_waiters.filter(|_| !mutated!(MaxWaitersIgnored))
}

/// A server that says nothing is unavailable, not busy.
pub(super) fn silence_is_told_from_refusal() -> bool {
    !mutated!(BusyForUnavailable)
}

/// Those who do not wait learn at once that the lock is busy.
pub(super) fn impatient_are_dismissed() -> bool {
    !mutated!(ImpatientNotDismissed)
}

/// A lease of this process is handed on here for a short time only: others may wait elsewhere.
pub(super) fn is_within_the_chain(entered: Time, now: Time) -> bool {
    now < entered.after(LOCAL_CHAIN_TIME) || mutated!(SharedChainUnlimited)
}

/// A lease that is handed on has time left for whoever gets it.
pub(super) fn leases_handed_on_must_last() -> bool {
    !mutated!(ShortLeaseHandedOn)
}

/// A lease that was given back is not ours to hand on.
pub(super) fn leases_end_with_their_release() -> bool {
    !mutated!(HandOnAfterRelease)
}

/// Nor is one that was lost.
pub(super) fn leases_end_with_their_loss() -> bool {
    !mutated!(HandOnAfterLoss)
}

/// Whoever waits here goes on waiting after a loss.
pub(super) fn waiters_are_served_after_a_loss() -> bool {
    !mutated!(NoServeAfterLoss)
}

// Renewing.

/// Only what somebody has noticed is worth keeping.
pub(super) fn is_noticed(cell: &LeaseCell) -> bool {
    cell.is_claimed() || mutated!(UnclaimedLeaseRenewed)
}

/// How long after the start the first renewal is due: a grant, which is short, first proves that it lasts.
pub(super) fn first_renewal_after(ttl: Duration) -> Duration {
    let soon = (LONGEST_CLAIM.min(ttl) / 3).min(Duration::from_millis(100));
    if mutated!(GrantRenewedLate) { ttl / 3 } else { soon }
}

/// Holders that come and go may bring a renewal forward, but never put it off.
pub(super) fn renewals_are_never_put_off() -> bool {
    !mutated!(ReadersPutOffRenewal)
}

/// Later renewals use the ttl of an extension, if it is longer.
pub(super) fn extensions_are_remembered() -> bool {
    !mutated!(ExtensionForgotten)
}

/// A renewal that is refused is a loss …
pub(super) fn refused_renewals_are_losses() -> bool {
    !mutated!(ForceReleaseNotReported)
}

/// … and one that failed is none.
pub(super) fn failed_renewals_are_no_losses() -> bool {
    !mutated!(IoErrorReportedAsLost)
}

// Giving back.

/// A lease that ends with the session is ended by this process when its ttl is over.
pub(super) fn leases_of_sessions_are_ended() -> bool {
    !mutated!(SessionLeaseLeftToItself)
}

/// A lease that was lost, but was not taken away, may be ours on the server still.
pub(super) fn lost_leases_are_given_back() -> bool {
    !mutated!(LostLeaseNotReleased)
}

/// `min_hold` counts although the hold was lost.
pub(super) fn min_hold_outlives_a_loss() -> bool {
    !mutated!(MinHoldDroppedAtLoss)
}

/// A release that failed, or that an earlier command may overtake, is sent again.
pub(super) fn releases_are_repeated() -> bool {
    !mutated!(NoCompensationAfterLinkChange)
}

/// It is repeated as long as anything may be left, and the server has not refused it for good.
pub(super) fn is_given_up(failure: Failure, sends: u32) -> bool {
    let refused_for_now = failure == Failure::Later && mutated!(LaterReleaseGivenUp);
    refused_for_now || (mutated!(PendingReleaseGivenUp) && sends > 3)
}

/// A refused release tells of a loss if it was sent once, and was answered while the lease was ours for certain.
pub(super) fn refused_release_is_a_loss(sends: u32, deadline: Option<Time>, now: Time) -> bool {
    let in_time = deadline.is_some_and(|deadline| now < deadline) || mutated!(LateRefusalReported);
    (sends == 1 && in_time) || mutated!(ResentReleaseReported)
}

/// A token that may stand in the queue is cancelled wherever it stands. (The fault is one of the server, which knows
/// by this time that a cancellation is meant.)
pub(super) fn mark_of_a_cancellation() -> Option<ServerTime> {
    mutated!(CancelWithoutTestingKey).then_some(ServerTime(u64::MAX))
}
