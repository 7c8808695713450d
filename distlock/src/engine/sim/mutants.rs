//! Proof that the simulation detects faults: each rule is broken on purpose, one at a time, and the simulation must
//! find it.
//!
//! The maximum of fencing tokens over several servers is tested elsewhere.

use super::config::{Config, Level, Profile, Use, Uses};
use super::linger;
use super::run;
use super::search::Search;
use super::tickets;
use crate::protocol::mutant::{Mutant, hunt};
use crate::simulation::number;

/// The number of seeds within which a fault must be found.
const SEEDS: u64 = 20_000;

/// A fault, and the settings that find it fastest.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) fault: Mutant,
    profiles: &'static [Profile],
    pub(super) uses: Uses,
    pub(super) level: Level,
    pub(super) bias: fn(&mut Config),
}

fn as_drawn(_: &mut Config) {}

/// Short holds, and threads that send in another order than the one in which they asked.
fn overtaken(c: &mut Config) {
    crowded(c);
    c.preempt = 0.3;
    c.push_twice = 0.5;
    c.longest_hold = 5;
    c.notice = 10;
    c.ttls = vec![10_000];
}

/// The same, and `min_hold` keeps the key for longer.
fn overtaken_and_kept(c: &mut Config) {
    overtaken(c);
    c.min_hold = 1.0;
    c.max_hold = 0.0;
}

/// At least two processes on one key, all of them waiting.
pub(super) fn crowded(c: &mut Config) {
    c.clients = c.clients.max(3);
    c.keys = 1;
    c.requests = c.requests.max(16);
    c.once = 0.0;
}

fn fenced(c: &mut Config) {
    crowded(c);
    c.fenced = 1.0;
}

/// Leases are renewed many times.
fn crowded_for_long(c: &mut Config) {
    crowded(c);
    c.ttls = vec![400];
    c.longest_hold = 1_500;
    (c.delay, c.notice) = ((50, 300), 10);
    (c.cancel, c.no_renew) = (0.0, 0.0);
}

/// Holders keep the lock as long as they may, and another process waits for the end.
fn to_the_end(c: &mut Config) {
    crowded(c);
    c.no_renew = 0.7;
    c.forever = 1.0;
    c.cancel = 0.0;
    c.careless = 0.0;
    c.ttls = vec![c.ttls[0].clamp(200, 2_000)];
    c.longest_hold = c.ttls[0] * 2;
}

fn at_the_bounds_of_drift(c: &mut Config) {
    to_the_end(c);
    c.drift = 9_000;
    c.delay = (50, 300);
    c.notice = 10;
}

fn slow_answers(c: &mut Config) {
    to_the_end(c);
    c.notice = 100_000;
    c.ttls = vec![300];
    c.longest_hold = 600;
}

fn late_pushes(c: &mut Config) {
    slow_answers(c);
    c.notice = 10_000;
    c.no_renew = 0.3;
    c.push_late = 0.5;
    c.longest_hold = 250;
}

fn lost_pushes(c: &mut Config) {
    crowded(c);
    c.push_loss = 0.5;
    (c.push_late, c.hints) = (0.0, 0);
    c.forever = 1.0;
    c.cancel = 0.0;
    c.ttls = vec![20_000];
    c.preempt = 0.0;
    c.misplaced = 0.0;
}

fn extended(c: &mut Config) {
    to_the_end(c);
    c.extend = 1.0;
    c.ttls = vec![300, 1_000];
}

/// The same, and renewals that were made before an extension reach the wire after it.
fn extended_and_overtaken(c: &mut Config) {
    extended(c);
    (c.preempt, c.no_renew) = (0.5, 0.0);
    (c.delay, c.notice) = ((50, 300), 10);
}

fn cancelled(c: &mut Config) {
    crowded(c);
    c.cancel = 0.8;
    c.longest_hold = 50;
}

fn cancelled_and_lost(c: &mut Config) {
    lost_pushes(c);
    c.cancel = 0.6;
    c.longest_hold = 50;
}

/// Many readers of one process acquire together, and release one after the other.
fn busy_readers(c: &mut Config) {
    crowded(c);
    c.clients = 1;
    c.requests = 200;
    c.ttls = vec![300];
    c.delay = (50, 300);
    c.notice = 10;
    c.longest_hold = 1_500;
    c.horizon = 2_000_000_000;
    c.cancel = 0.0;
    c.no_renew = 0.0;
    c.extend = 0.0;
    c.shutdowns = 0;
}

fn kept(c: &mut Config) {
    crowded(c);
    c.min_hold = 1.0;
    c.max_hold = 0.0;
    c.ttls = vec![3_000];
    c.longest_hold = 50;
}

fn forced(c: &mut Config) {
    c.forces = 6;
    c.keys = 1;
    c.ttls = vec![6_000];
    c.longest_hold = 10_000;
    c.no_renew = 0.0;
    c.extend = 0.0;
    c.min_hold = 0.0;
    c.max_hold = 0.0;
    c.cancel = 0.0;
}

fn forced_while_asking(c: &mut Config) {
    forced(c);
    c.clients = 2;
    c.requests = 12;
    c.forces = 40;
    c.horizon = 3_000_000_000;
    c.delay = (5_000, 60_000);
    c.ttls = vec![400, 2_000];
    c.longest_hold = 500;
    c.fenced = 1.0;
}

fn misled(c: &mut Config) {
    crowded(c);
    c.shifted = 0.1;
    c.keys = 2;
    c.delay = (1_000, 20_000);
}

fn set_forward(c: &mut Config) {
    c.pauses = 0;
    c.no_renew = 0.9;
    c.careless = 0.0;
    c.keys = 2;
    c.clients = 3;
    c.requests = 20;
    c.forever = 1.0;
    c.cancel = 0.0;
}

/// Requests for several keys that block each other.
fn several(c: &mut Config) {
    c.keys = 3;
    c.several = 0.8;
    c.clients = c.clients.max(3);
    c.requests = c.requests.max(16);
    c.once = 0.0;
}

/// The same, and waiting takes longer than a lease lasts.
fn several_for_long(c: &mut Config) {
    several(c);
    c.ttls = vec![400];
    c.longest_hold = 1_500;
    (c.delay, c.notice) = ((50, 300), 10);
    (c.cancel, c.no_renew, c.extend) = (0.0, 0.0, 0.0);
}

/// Requests for several keys, and commands get lost.
fn several_cut_off(c: &mut Config) {
    several(c);
    c.breaks = c.breaks.max(8);
    c.longest_hold = 20;
    c.ttls = vec![20_000];
}

/// Some requests want much shorter leases than others, and the lease is handed on between them.
fn unequal(c: &mut Config) {
    crowded(c);
    c.clients = 2;
    c.requests = 60;
    c.ttls = vec![300, 5_000];
    c.longest_hold = 20;
    c.delay = (50, 300);
    c.notice = 10;
    c.no_renew = 0.3;
    c.cancel = 0.0;
    c.max_hold = 0.0;
    c.shutdowns = 0;
    (c.preempt, c.stale, c.misplaced, c.resend) = (0.0, 0.0, 0.0, 0.0);
}

fn kept_and_capped(c: &mut Config) {
    kept(c);
    c.max_hold = 0.7;
    c.longest_hold = 1_000;
}

fn unpolled(c: &mut Config) {
    crowded(c);
    c.unpolled = 0.5;
    c.ttls = vec![1_000];
}

/// The same, and some requests want much shorter leases than others.
fn unpolled_and_unequal(c: &mut Config) {
    unequal(c);
    c.unpolled = 0.5;
    c.no_renew = 0.0;
}

/// Callers whose commands are in flight are not polled, and behind them are requests that do not wait, or not for long.
fn unpolled_and_in_the_way(c: &mut Config) {
    crowded(c);
    (c.delay, c.notice) = ((50, 300), 10);
    (c.unpolled, c.once, c.forever, c.cancel) = (0.5, 0.4, 0.2, 0.0);
    c.longest_hold = 20;
    c.ttls = vec![10_000];
}

/// Requests for several keys on slow links. Many of them wait for only a little longer than a round trip.
fn several_in_a_hurry(c: &mut Config) {
    several(c);
    (c.delay, c.notice, c.late) = ((5_000, 15_000), 10, 1);
    c.forever = 0.0;
    c.longest_hold = 300;
    c.ttls = vec![10_000];
}

fn bounded(c: &mut Config) {
    crowded(c);
    c.bounded = 0.5;
    c.requests = 60;
}

fn capped(c: &mut Config) {
    crowded(c);
    c.max_hold = 0.5;
    c.longest_hold = 3_000;
}

/// Most holders renew, and keep the lock after the server's clock was set.
fn renewed_after_a_step(c: &mut Config) {
    set_forward(c);
    c.no_renew = 0.1;
    c.max_hold = 0.0;
    c.horizon = 12_000_000_000;
    c.preempt = 0.0;
    c.misplaced = 0.0;
}

/// Sections follow each other on leases, and some requests need their own lease.
fn with_leaders(c: &mut Config) {
    crowded(c);
    (c.own_lease, c.longest_hold, c.notice) = (0.5, 5, 10);
    c.ttls = vec![10_000];
}

use Profile::{
    Alone, Backward, Calm, Cluster, Crashes, Deaf, Flapping, Forced, Foreign, FormerLinksAlive, Forward,
    Links, Polling, Pushes, Refusing, Short, Wiped,
};

pub(super) const fn case(fault: Mutant, profiles: &'static [Profile], bias: fn(&mut Config)) -> Case {
    Case { fault, profiles, uses: Uses::All(Use::Exclusive), level: Level::Engine, bias }
}

const fn other(fault: Mutant, profiles: &'static [Profile], uses: Use, bias: fn(&mut Config)) -> Case {
    Case { fault, profiles, uses: Uses::All(uses), level: Level::Engine, bias }
}

pub(super) const fn driven(fault: Mutant, profiles: &'static [Profile], bias: fn(&mut Config)) -> Case {
    Case { level: Level::Driver, ..case(fault, profiles, bias) }
}

/// Rules of the driver, and some of the engine's that depend on it.
const DRIVER_CASES: &[Case] = &[
    driven(Mutant::CommandDroppedWithCaller, &[Calm, Links], cancelled),
    driven(Mutant::CommandLeftToCaller, &[Calm], unpolled_and_in_the_way),
    driven(Mutant::RearmForgotten, &[Calm], crowded),
    driven(Mutant::DroppedHandleKept, &[Calm], cancelled),
    driven(Mutant::DroppedRequestWaits, &[Calm], cancelled),
    driven(Mutant::NoticedGrantNotClaimed, &[Calm], crowded_for_long),
    driven(Mutant::OnlyFirstAnswerNoticed, &[Calm], several_for_long),
    driven(Mutant::OvertakingForgotten, &[Pushes, Deaf, Links], overtaken),
    driven(Mutant::HandOnAfterLoss, &[Calm, Crashes], to_the_end),
    driven(Mutant::LateAnswerNotCompensated, &[Links, FormerLinksAlive], cancelled),
    driven(Mutant::UnclaimedLeaseRenewed, &[Calm], unpolled),
    driven(Mutant::UnclaimedTakesWholeLease, &[Calm], unpolled_and_unequal),
    driven(Mutant::SilenceOfOneKeyCounts, &[Calm], several_in_a_hurry),
    driven(Mutant::AcquireAllGoesOn, &[Calm], several),
    driven(Mutant::FollowerNotCompensated, &[Links, FormerLinksAlive], several_cut_off),
    driven(Mutant::NoCompensationAfterLinkChange, &[Links, FormerLinksAlive], crowded),
    driven(Mutant::DeadlineFromReceipt, &[Calm, Short], slow_answers),
    driven(Mutant::UnknownPushIgnored, &[FormerLinksAlive, Links], crowded),
    driven(Mutant::ExtensionForgotten, &[Calm, Short], extended_and_overtaken),
    driven(Mutant::RenewShortens, &[Calm, Short], extended_and_overtaken),
];

const CASES: &[Case] = &[
    case(Mutant::AcquireAllGoesOn, &[Calm], several),
    case(Mutant::FollowerAsks, &[Links, FormerLinksAlive], several_cut_off),
    case(Mutant::FollowerNotCompensated, &[Links, FormerLinksAlive], several_cut_off),
    other(Mutant::MembersOutliveTheirMarker, &[Forced], Use::Readers(0.9), forced),
    other(Mutant::RenewalChecksOnlyTheMarker, &[Forced], Use::Readers(0.9), forced),
    other(Mutant::RenewalChecksOnlyTheMembers, &[Forced], Use::Readers(0.9), forced),
    other(Mutant::SharedChainUnlimited, &[Alone, Calm], Use::Readers(0.9), crowded),
    other(Mutant::NoServeAfterCancel, &[Calm, Links], Use::Readers(0.7), cancelled),
    other(Mutant::ReaderPassesWriter, &[Calm], Use::Readers(0.7), crowded),
    other(Mutant::LimitedTimerFromMarker, &[Calm, Crashes], Use::Limited(2), extended),
    other(Mutant::ReadersPutOffRenewal, &[Calm], Use::Readers(1.0), busy_readers),
    other(Mutant::WrongKindLeavesEntry, &[Calm], Use::Clashing(2), crowded),
    other(Mutant::AttemptOverwritten, &[Calm, Alone], Use::Limited(2), to_the_end),
    case(Mutant::AcquiredWhileHeldTakenAsAlreadyHeld, &[Forced], forced_while_asking),
    case(Mutant::AlreadyHeldDoesNotExtend, &[Pushes, Short], late_pushes),
    case(Mutant::DeadlineFromReceipt, &[Calm, Short], slow_answers),
    case(Mutant::GrantDeadlineFromReceipt, &[Pushes, Short], late_pushes),
    case(Mutant::StalePushSaturates, &[Pushes, Short], late_pushes),
    case(Mutant::RenewShortens, &[Links, Crashes, Calm], extended),
    case(Mutant::ResentReleaseReported, &[Links, FormerLinksAlive], crowded),
    case(Mutant::NoCompensationAfterLinkChange, &[Links, FormerLinksAlive], crowded),
    case(Mutant::CancelWithoutTestingKey, &[Pushes], cancelled_and_lost),
    case(Mutant::MinHoldKeepsToken, &[FormerLinksAlive, Links], kept),
    case(Mutant::TokenReused, &[Calm, Links], crowded),
    case(Mutant::HandOnAfterLoss, &[Calm, Crashes], to_the_end),
    case(Mutant::HandOnAfterRelease, &[Calm], crowded),
    case(Mutant::GrantReservesOneChainUsesTwo, &[Backward, Alone], fenced),
    case(Mutant::TimerIsRemainingOnly, &[Pushes], lost_pushes),
    case(Mutant::HeartbeatLongerThanClaim, &[Pushes], lost_pushes),
    case(Mutant::NoDrift, &[Calm], at_the_bounds_of_drift),
    case(Mutant::ReleaseWithoutCompare, &[Calm, Short], cancelled),
    case(Mutant::StaleReplyBelieved, &[Pushes, Calm], slow_answers),
    case(Mutant::ReplyToWrongRequest, &[Links], misled),
    case(Mutant::FenceMintedAtEnqueue, &[Calm], fenced),
    case(Mutant::FenceWithoutMaximum, &[Backward, Calm], fenced),
    case(Mutant::NoRecheckAfterResubscription, &[Deaf], crowded),
    case(Mutant::DeadEntriesNotSkipped, &[Crashes], crowded),
    case(Mutant::PublishCountTrusted, &[Cluster], crowded),
    case(Mutant::PollWaiterDropped, &[Polling, Deaf], crowded),
    case(Mutant::UnknownPushIgnored, &[FormerLinksAlive, Links], crowded),
    case(Mutant::CompensationBeforeKill, &[Links], crowded),
    case(Mutant::EntryLeftAfterDirectAcquire, &[Foreign, Calm], crowded),
    case(Mutant::IoErrorReportedAsLost, &[Links], as_drawn),
    case(Mutant::RenewCreates, &[Forced, Wiped], forced),
    case(Mutant::ForceReleaseNotReported, &[Forced], forced),
    case(Mutant::StepIgnored, &[Forward], set_forward),
    other(Mutant::NoRenewExtendedByOthers, &[Calm], Use::Readers(0.9), to_the_end),
    case(Mutant::NoRenewTakesWholeLease, &[Calm], unequal),
    case(Mutant::MaxHoldIgnored, &[Calm], capped),
    case(Mutant::TermOnFormerLease, &[Calm], with_leaders),
    case(Mutant::PendingReleaseGivenUp, &[Flapping, Refusing], crowded),
    case(Mutant::NoRenewalAfterStep, &[Forward], renewed_after_a_step),
    case(Mutant::ExtensionForgotten, &[Calm], extended),
    case(Mutant::ShortLeaseHandedOn, &[Calm], unequal),
    case(Mutant::ArmedWhileChecking, &[Calm], crowded),
    case(Mutant::MinHoldDroppedAtLoss, &[Calm], kept_and_capped),
    case(Mutant::LaterDismissesWaiters, &[Refusing], crowded),
    case(Mutant::LaterReleaseGivenUp, &[Refusing], crowded),
    case(Mutant::RefusedReleaseGivenUp, &[Refusing], crowded),
    case(Mutant::MaxWaitersIgnored, &[Calm], bounded),
    case(Mutant::UnclaimedLeaseRenewed, &[Calm], unpolled),
    case(Mutant::UnclaimedTakesWholeLease, &[Calm], unpolled_and_unequal),
    other(Mutant::UnclaimedTakesWholeLease, &[Calm], Use::Readers(0.9), unpolled_and_unequal),
    case(Mutant::SilenceOfOneKeyCounts, &[Calm], several_in_a_hurry),
    case(Mutant::NoServeAfterLoss, &[Calm, Crashes], to_the_end),
    case(Mutant::LateRefusalReported, &[Calm, Crashes, Links], to_the_end),
    case(Mutant::BusyForUnavailable, &[Links], crowded),
    case(Mutant::QueuedNotCancelled, &[Pushes, Calm], cancelled),
    case(Mutant::LostLeaseNotReleased, &[Calm], to_the_end),
    case(Mutant::GrantRenewedLate, &[Calm], crowded),
    case(Mutant::ImpatientNotDismissed, &[Calm], as_drawn),
    case(Mutant::LateAnswerNotCompensated, &[Links, FormerLinksAlive], cancelled),
    case(Mutant::RefusalIsNothingDone, &[Refusing], as_drawn),
    case(Mutant::OvertakingForgotten, &[Pushes, Deaf, Links], overtaken),
    case(Mutant::MinHoldOvertaken, &[Pushes, Deaf, Links], overtaken_and_kept),
];

impl Case {
    /// The case that breaks the rule of this name.
    pub(super) fn named(name: &str) -> Option<&'static Case> {
        // With `DRIVEN` in the environment, the cases of the driver.
        let (cases, more) = match std::env::var_os("DRIVEN") {
            Some(_) => (DRIVER_CASES, [linger::DRIVER_CASES, tickets::DRIVER_CASES]),
            None => (CASES, [linger::CASES, tickets::CASES]),
        };
        cases.iter().chain(more.into_iter().flatten()).find(|case| format!("{:?}", case.fault) == name)
    }

    fn profile(&self, seed: u64) -> Profile {
        let count = u64::try_from(self.profiles.len()).unwrap_or(1);
        self.profiles[usize::try_from(seed % count).unwrap_or(0)]
    }
}

#[test]
#[ignore = "takes minutes: ./scripts/test.sh --all"]
fn every_broken_rule_is_found() {
    search(CASES);
}

#[test]
#[ignore = "takes minutes: ./scripts/test.sh --all"]
fn every_broken_rule_is_found_with_the_real_driver() {
    search(DRIVER_CASES);
}

#[test]
fn every_broken_rule_of_lingering_is_found() {
    search(linger::CASES);
    search(linger::DRIVER_CASES);
}

#[test]
fn every_broken_rule_of_tickets_is_found() {
    search(tickets::CASES);
    search(tickets::DRIVER_CASES);
}

fn search(cases: &'static [Case]) {
    hunt(
        cases,
        SEEDS,
        |case| case.fault,
        |case, seed| {
            let violation = run(seed, case.profile(seed), Search::Case(case)).err()?;
            Some(violation.check().to_owned())
        },
    );
}

/// Without a broken rule, the settings of the cases find no violation.
#[test]
fn where_rules_are_broken_on_purpose_none_is_broken_otherwise() {
    let lingering = linger::CASES.iter().chain(linger::DRIVER_CASES);
    let tickets = tickets::CASES.iter().chain(tickets::DRIVER_CASES);
    for case in CASES.iter().chain(DRIVER_CASES).chain(lingering).chain(tickets) {
        for seed in 0..number("BIASED").unwrap_or(10) {
            for profile in case.profiles {
                if let Err(violation) = run(seed, *profile, Search::Case(case)) {
                    panic!("{}", violation.report());
                }
            }
        }
    }
}
