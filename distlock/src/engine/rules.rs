//! The one-line rules of the engine, one function each.
//!
//! The tests break every rule on purpose, by the fault that it names. The simulation, or a separate test, must detect
//! it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::state::{Door, Linger, Sends};
use super::{CONTENDED_JOIN_TIME, LINGER_ENDS_EARLY, LOCAL_CHAIN_TIME, LONGEST_CLAIM, WaitLimit, Want};
use crate::collection::KeyCollection;
use crate::lease_cell::LeaseCell;
use crate::protocol::{Failure, Fences, ServerTime, Time, mutated};

/// How far ahead of the server's clock a pushed fencing token may be to be believed.
const FENCES_AHEAD: Duration = Duration::from_secs(60);

/// Rules that hold unless a test breaks them by the fault behind `unless`.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident unless $fault:ident;)*) => {
        $($(#[$doc])* pub(super) fn $rule() -> bool { !mutated!($fault) })*
    };
}

// Replies and their order.

rules! {
    /// If the server found the lock free although we hold it, the lock was lost in between.
    fresh_while_held_is_a_loss unless AcquiredWhileHeldTakenAsAlreadyHeld;

    /// The process that takes a lease over finds it.
    leases_that_are_handed_over_stay unless HandedOverReleased;

    /// A late grant or reply does not release a lease that was handed over.
    handed_over_leases_are_remembered unless HandedOverForgotten;

    /// After its last renewal, no task of this process gets a lease: it is handed over, or released.
    leases_leave_with_their_last_renewal unless LastRenewalPassedOn;

    /// An acquisition that was applied late and that no request wants is released.
    late_answers_are_compensated unless LateAnswerNotCompensated;

    /// An acquisition whose lease had run out when its reply came is released.
    leases_that_come_too_late_are_compensated unless TooLateNotCompensated;

    /// The queue entry of an attempt is removed if the key holds another kind of lock.
    wrong_kind_is_compensated unless WrongKindLeavesEntry;

    /// If a command for several keys missed a key, its effects on the keys after that one are released.
    followers_are_compensated unless FollowerNotCompensated;

    /// A queue entry that no request wants is removed.
    queue_entries_are_cancelled unless QueuedNotCancelled;
}

/// A reply to an older command says nothing once a newer command has been answered.
pub(super) fn is_stale(seq: u64, seen: u64) -> bool {
    seq < seen && !mutated!(StaleReplyBelieved)
}

/// A refused command that was sent before the lease was requested is about an earlier lease of the same
/// token.
pub(super) fn is_about_an_earlier_lease(sent: Time, asked: Time) -> bool {
    sent < asked && !mutated!(OldRefusalBelieved)
}

/// After a temporary refusal the server is asked again. Only a permanent refusal ends the wait.
pub(super) fn ends_the_wait(failure: Failure) -> bool {
    failure == Failure::Refused || (failure == Failure::Later && mutated!(LaterDismissesWaiters))
}

// Deadlines.

rules! {
    /// A grant counts from the time when it was made, not from the arrival of its push.
    grants_are_counted_from_when_they_were_made unless GrantDeadlineFromReceipt;

    /// What we know about the server's clock is forgotten when the link breaks.
    clock_is_forgotten_with_the_link unless PairKeptOverReconnect;

    /// Leases end earlier by the amount that the server's clock was set forward.
    steps_shorten_leases unless StepIgnored;

    /// After a clock step every lease is renewed at once, to learn how long it lasts.
    steps_are_followed_by_renewals unless NoRenewalAfterStep;

    /// A holder without renewal ends with its own ttl, even on a lease that lasts longer.
    ends_with_its_own_ttl unless NoRenewTakesWholeLease;

    /// Renewals for other holders of the same lease do not extend a holder without renewal.
    others_renewals_do_not_count unless NoRenewExtendedByOthers;
}

/// A lease counts from the instant before its command was sent.
pub(super) fn counted_from(sent: Time, now: Time) -> Time {
    if mutated!(DeadlineFromReceipt) { now } else { sent }
}

/// How long after `known` a grant was made, in microseconds. `None`: it was made before, so the push is
/// outdated.
pub(super) fn made_after(known: ServerTime, granted: ServerTime) -> Option<u64> {
    granted.0.checked_sub(known.0).or(if mutated!(StalePushSaturates) { Some(0) } else { None })
}

/// Whether the fencing token of a push is believed: it must not be further ahead of the time in the push than
/// [`FENCES_AHEAD`]. Every client that may publish can forge pushes, and after one larger token the data would refuse
/// all real ones. So about any other token the server is asked. A real token is ahead only if the server's clock was
/// set back, or if very many tokens are reserved.
pub(super) fn fence_is_plausible(fence: Option<u64>, granted: ServerTime, fences: Fences) -> bool {
    let latest = granted.0.saturating_add(FENCES_AHEAD.as_micros() as u64);
    fences == Fences::OfTheStore || fence.is_none_or(|fence| fence <= latest) || mutated!(FarFenceBelieved)
}

/// A grant whose time lies in the future shows that the server's clock was set.
pub(super) fn is_from_the_future(granted: Time, now: Time) -> bool {
    granted > now && !mutated!(PairKeptOverReconnect)
}

pub(super) fn max_hold(want: &Want) -> Option<Duration> {
    want.max_hold.filter(|_| !mutated!(MaxHoldIgnored))
}

/// The queue entry of an earlier command, with its shorter claim, stays until the newest command is applied,
/// which may never happen. So only the shorter of the two claims is certain.
pub(super) fn certain_claim(standing: Option<Duration>, claim: Duration) -> Duration {
    standing.filter(|_| !mutated!(NewestClaimAssumed)).map_or(claim, |standing| standing.min(claim))
}

// Tokens.

rules! {
    /// A token is never used twice.
    tokens_are_new unless TokenReused;

    /// A grant that no request of this process waits for is released.
    unknown_grants_are_given_back unless UnknownPushIgnored;
}

/// Any of several commands may be the one that was applied, so only the smallest number of fencing tokens is
/// certain.
pub(super) fn certain_fences(before: Option<u32>, now: u32) -> u32 {
    match before {
        Some(before) if mutated!(MostFencesAssumed) => before.max(now),
        Some(before) => before.min(now),
        None => now,
    }
}

/// A grant comes with as many fencing tokens as were reserved for it, no more.
pub(super) fn granted_fences(reserved: u64) -> u64 {
    if mutated!(GrantReservesOneChainUsesTwo) { reserved + 1 } else { reserved }
}

/// Replies to commands from before a grant say nothing about its lease.
pub(super) fn answered_before_the_grant(seen: u64) -> u64 {
    if mutated!(GrantForgetsOldReplies) { 0 } else { seen }
}

// Sending acquire commands.

rules! {
    /// A key behind the first of a command for several keys never sends a command of its own: that command might
    /// acquire it before the keys in front of it are held.
    followers_do_not_ask unless FollowerAsks;

    /// A key behind the first of a command for several keys is left out if a take-over stops its attempt. Otherwise its
    /// request would wait for the key alone, although the keys in front of it may not be held.
    followers_end_with_their_attempt unless FollowerWaitsAlone;

    /// An attempt with another token that is in progress keeps its token.
    attempts_are_kept unless AttemptOverwritten;

    /// A waiter asks earlier than when the holder's lease runs out, because the holder may release before.
    holders_may_let_go_early unless TimerIsRemainingOnly;

    /// After a new subscription every waiter asks again: pushes may have been missed before it.
    new_subscriptions_are_followed_by_a_look unless NoRecheckAfterResubscription;
}

/// Whether a request asks even if this process has just left the key free for plain pollers. A take-over finds no free
/// lock, so it keeps no poller away.
pub(super) fn asks_in_a_gap(want: &Want) -> bool {
    want.wait_limit == WaitLimit::Once || (want.replaces.is_some() && !mutated!(TakeOverAcquires))
}

/// A take-over that has to pause stays one: as an acquisition, it would get a free lock with a used ticket.
pub(super) fn replaces_after_a_pause(holder: Option<Arc<str>>) -> Option<Arc<str>> {
    holder.filter(|_| !mutated!(TakeOverAcquires))
}

/// A waiter asks again before a grant to it would end: within four fifths of the claim.
pub(super) fn heartbeat(claim: Duration) -> Duration {
    let fifths = if mutated!(HeartbeatLongerThanClaim) { 10 } else { 4 };
    claim * fifths / 5
}

// Waiting in this process.

rules! {
    /// A request with a ticket that ends without an answer may have used the ticket if a command of it was sent.
    unanswered_take_overs_may_have_happened unless UnansweredTakeOverUnavailable;

    /// Only requests that the attempt serves end with a reply that is final. Readers do not get a lock that the readers
    /// of another prefix have, but writers behind them may wait for it. A store that refuses a take-over may grant
    /// locks.
    a_final_reply_ends_the_served_only unless FinalReplyEndsAll;

    /// A server that does not reply is reported as unavailable, not as busy.
    silence_is_told_from_refusal unless BusyForUnavailable;

    /// Requests that do not wait learn at once that the lock is busy.
    impatient_are_dismissed unless ImpatientNotDismissed;

    /// A lease is handed on only if it lasts long enough for the next holder.
    leases_handed_on_must_last unless ShortLeaseHandedOn;

    /// A lease whose release was sent is never handed on.
    leases_end_with_their_release unless HandOnAfterRelease;

    /// A lost lease is never handed on.
    leases_end_with_their_loss unless HandOnAfterLoss;

    /// After a loss, the waiters of this process continue to wait.
    waiters_are_served_after_a_loss unless NoServeAfterLoss;
}

pub(super) fn max_waiters(want: &Want) -> Option<u32> {
    want.max_waiters.filter(|_| !mutated!(MaxWaitersIgnored))
}

/// A request for several keys that has some of them has been answered: it may have had no time left for the next one.
pub(super) fn has_had_a_reply(collection: Option<&KeyCollection>) -> bool {
    collection.is_some_and(KeyCollection::has_begun) && !mutated!(SilenceOfOneKeyCounts)
}

/// A process hands a lease on among its own tasks for a short time only, because other processes may wait.
pub(super) fn is_within_the_chain(entered: Time, now: Time) -> bool {
    now < entered.after(LOCAL_CHAIN_TIME) || mutated!(SharedChainUnlimited)
}

/// No reader joins others whose end a writer of another process waits for.
pub(super) fn readers_may_join_at(door: Door) -> bool {
    door != Door::Closed || mutated!(JoinedThoughWanted)
}

/// Whether readers may join others that share a lease although another process was found in the way a moment ago.
pub(super) fn readers_may_join_though_contended(entered: Time, door: Door, now: Time) -> bool {
    let all_are_there = door != Door::OneHasLeft || mutated!(JoinedThoughOneHasLeft);
    (all_are_there && now < entered.after(CONTENDED_JOIN_TIME)) || mutated!(JoinedThoughContended)
}

/// The token of a leader's lease names the term, so no other holder had the lease before.
pub(super) fn takes_former_leases(want: &Want) -> bool {
    !want.own_lease || mutated!(TermOnFormerLease)
}

// Lingering.

rules! {
    /// A lease that lingers is released when its time is over.
    lingering_ends_in_time unless LingeringEndForgotten;

    /// A lease lingers only while this process gets the pushes that report that others want it.
    lingering_takes_pushes unless LingersWithoutPushes;

    /// A lease that lingers is released when another client wants it.
    wanted_leases_are_given_back unless WantedIgnored;

    /// If it is wanted while it is in use, it does not linger afterwards.
    wanted_during_a_section_is_remembered unless WantedForgotten;
}

/// After this time the process gives up a lease that may stay for `linger`, so that it is gone in time although timers
/// are late.
pub(super) fn time_without_a_section(linger: Duration) -> Duration {
    if mutated!(LingersToTheEnd) { linger } else { linger - LINGER_ENDS_EARLY.min(linger / 4) }
}

/// The rest of the time counts when a lease lingers again.
pub(super) fn end_of_lingering(before: Time, from_now: Time) -> Time {
    if mutated!(LingeringBeginsAnew) { from_now } else { before.min(from_now) }
}

/// A lease lingers no longer than it lasts.
pub(super) fn within_the_lease(until: Time, deadline: Time) -> Time {
    if mutated!(LingeringProlongs) { until } else { until.min(deadline) }
}

/// A section that takes up a lease that lingered has the rest of it.
pub(super) fn end_after_lingering(deadline: Time, now: Time, ttl: Duration) -> Time {
    if mutated!(LingeringProlongs) { now.after(ttl) } else { deadline }
}

/// No section gets the fencing token of the section before it.
pub(super) fn fences_after_lingering(left: Range<u64>) -> Range<u64> {
    if mutated!(FenceUsedAgain) { left.start.saturating_sub(1)..left.end } else { left }
}

/// If a lease that lingers is not released in time, its process may be late by more than a quarter of a second: the
/// waiter asks again after that.
pub(super) fn late_keepers_are_asked(planned: u32, most: u32) -> bool {
    planned < if mutated!(LateKeeperLeftAlone) { most - 2 } else { most }
}

/// Clients may have asked the former holder of a lock that was taken over, and not learn that it is ours now.
pub(super) fn lingering_time(want: &Want) -> Option<Duration> {
    want.linger.filter(|_| want.replaces.is_none() || mutated!(TakenOverLingers))
}

/// Clients may wait for a lock that was busy, and not learn that it is ours now: it does not linger.
pub(super) fn lingers_after_a_wait(linger: Linger) -> Linger {
    if mutated!(LingersAfterAWait) { linger } else { Linger::Never }
}

// Renewing.

rules! {
    /// Holders that come and go may bring a renewal forward but never postpone it.
    renewals_are_never_put_off unless ReadersPutOffRenewal;

    /// Later renewals use the ttl of an extension if that is longer.
    extensions_are_remembered unless ExtensionForgotten;

    /// A renewal that the server answers with "not held" is a loss.
    refused_renewals_are_losses unless ForceReleaseNotReported;

    /// A renewal that failed (no conclusive reply) is not a loss.
    failed_renewals_are_no_losses unless IoErrorReportedAsLost;
}

/// A lease is renewed only once its requester has noticed the grant.
pub(super) fn is_noticed(cell: &LeaseCell) -> bool {
    cell.is_claimed() || mutated!(UnclaimedLeaseRenewed)
}

/// A hold that its requester has not noticed ends when its own ttl is over, even on a lease that lasts longer.
pub(super) fn end_unless_noticed(deadline: Time, cell: &LeaseCell, ttl: Duration) -> Time {
    let is_whole = is_noticed(cell) || mutated!(UnclaimedTakesWholeLease);
    if is_whole { deadline } else { deadline.min(cell.held_since.after(ttl)) }
}

/// How long after the start the first renewal is due. It is early, because a grant is short and must first be
/// prolonged.
pub(super) fn first_renewal_after(ttl: Duration) -> Duration {
    let soon = (LONGEST_CLAIM.min(ttl) / 3).min(Duration::from_millis(100));
    if mutated!(GrantRenewedLate) { ttl / 3 } else { soon }
}

// Releasing.

rules! {
    /// A lease that ends with the session is released by this process when its ttl is over.
    leases_of_sessions_are_ended unless SessionLeaseLeftToItself;

    /// A lost lease that was not taken away may still be ours on the server, so it is released.
    lost_leases_are_given_back unless LostLeaseNotReleased;

    /// `min_hold` applies even if the hold was lost.
    min_hold_outlives_a_loss unless MinHoldDroppedAtLoss;

    /// A release that failed, or that an earlier command may overtake, is sent again.
    releases_are_repeated unless NoCompensationAfterLinkChange;

    /// The I/O thread may send a release of a token before the caller's thread has sent that of the token's lease.
    /// Then the latter finds nothing, and that is no loss.
    repeated_releases_are_remembered unless OvertakingForgotten;

    /// If a release without `min_hold` overtakes the one that asks for it, the key is kept nevertheless.
    min_hold_survives_overtaking unless MinHoldOvertaken;
}

/// A release is repeated until nothing of its lease can be left, for every error of the server.
pub(super) fn is_given_up(failure: Failure, sends: u32) -> bool {
    let refused_for_now = failure == Failure::Later && mutated!(LaterReleaseGivenUp);
    let refused = failure == Failure::Refused && mutated!(RefusedReleaseGivenUp);
    refused_for_now || refused || (mutated!(PendingReleaseGivenUp) && sends > 3)
}

/// A release answered with "not held" proves a loss only if it was the only one of its token (another may have
/// overtaken it), and was answered while the lease was certainly ours.
pub(super) fn refused_release_is_a_loss(sends: Sends, deadline: Option<Time>, now: Time) -> bool {
    let in_time = deadline.is_some_and(|deadline| now < deadline) || mutated!(LateRefusalReported);
    in_time && (sends == Sends::Once || mutated!(ResentReleaseReported))
}

/// A token is released wherever its entry is in the queue. (The fault belongs to the server: this time tells it that no
/// lease is meant.)
pub(super) fn mark_of_a_cancellation() -> Option<ServerTime> {
    mutated!(CancelWithoutTestingKey).then_some(ServerTime(u64::MAX))
}
