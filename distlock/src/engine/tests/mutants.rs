//! Broken rules that the simulation does not notice within reasonable time, because several rare events must
//! coincide. Each is noticed by a test of its own.

use std::panic::catch_unwind;

use super::{acquiring, granting, linger, loss, session, shared};
use crate::protocol::mutant::{Mutant, switch};
use crate::protocol::session as sessions;

/// A broken rule, and the test that notices it.
const CASES: &[(Mutant, fn())] = &[
    // Between our deadline and the server's lie at most one per cent of the ttl and 2 ms: the tolerance for
    // clocks.
    (
        Mutant::TooLateNotCompensated,
        acquiring::an_answer_after_the_lease_has_run_out_is_given_back_and_a_new_token_tried,
    ),
    // The reply to a renewal must be overtaken by that of a later command, and the lease must have run out in
    // between.
    (Mutant::OldRefusalBelieved, loss::a_renewal_that_was_refused_before_the_lock_was_taken_anew_is_none),
    // The lock must be taken away by force and granted again while one reply is in flight.
    (Mutant::GrantForgetsOldReplies, granting::an_answer_from_before_the_grant_says_nothing_about_its_lease),
    // The first waiter must want a much shorter lease than the next, and the server must not learn of the
    // change.
    (
        Mutant::NewestClaimAssumed,
        granting::a_grant_lasts_as_long_as_the_shortest_claim_that_may_stand_in_the_queue,
    ),
    // A hold lasts no longer than its own ttl until its caller has noticed it, and then it is renewed.
    (Mutant::PairKeptOverReconnect, granting::a_grant_after_a_reconnection_is_confirmed),
    // The clock must have been set back as well: otherwise the tokens that were not reserved are in the past.
    (Mutant::MostFencesAssumed, granting::a_grant_comes_with_as_many_tokens_as_the_most_modest_question),
    // The simulation has no forged pushes.
    (Mutant::FarFenceBelieved, granting::a_fencing_token_far_ahead_of_the_servers_clock_is_asked_about),
    // The sessions of the simulation live as long as their processes, and its server ends leases with their ttl.
    (Mutant::AnswerOfLostSessionBelieved, session::an_answer_from_the_lost_session_is_not_believed),
    (
        Mutant::HeartbeatOfLostSessionCounts,
        sessions::tests::a_lost_session_is_not_revived_by_its_own_late_heartbeat,
    ),
    (
        Mutant::SessionLeaseLeftToItself,
        session::a_lease_whose_ttl_is_over_is_given_back_before_its_body_has_ended,
    ),
    // The simulation only checks that a writer waits no longer than the chain.
    (
        Mutant::JoinedThoughContended,
        shared::readers_join_for_a_shorter_time_where_another_process_was_in_the_way,
    ),
    (
        Mutant::JoinedThoughOneHasLeft,
        shared::where_another_process_was_in_the_way_no_reader_joins_after_one_has_left,
    ),
    (Mutant::JoinedThoughWanted, shared::no_reader_joins_those_whose_end_a_writer_elsewhere_waits_for),
    // The simulation has one prefix, so readers only meet another kind that writers may not have either.
    (Mutant::FinalReplyEndsAll, shared::a_writer_behind_readers_who_are_told_of_another_kind_waits),
    // Waiters ask again a few milliseconds later, which hides the fault.
    (Mutant::LingersToTheEnd, linger::a_lease_that_nobody_comes_back_to_is_released_before_its_time_is_over),
];

#[test]
fn every_rule_here_is_seen_broken() {
    for (fault, test) in CASES {
        test();
        switch(Some(*fault));
        let noticed = catch_unwind(test).is_err();
        switch(None);
        assert!(noticed, "{fault:?} is not noticed");
    }
}
