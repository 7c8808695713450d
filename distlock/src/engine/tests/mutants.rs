//! Rules that the simulation does not see broken within reasonable time, because several rare things must come
//! together: here each is seen by a test of its own.

use std::panic::catch_unwind;

use super::{acquiring, granting, loss, session};
use crate::protocol::mutant::{Mutant, switch};
use crate::protocol::server_clock;
use crate::protocol::session as sessions;

/// A broken rule, and the test that notices it.
const CASES: &[(Mutant, fn())] = &[
    // What is left of the lease is at most one per cent of it, and 2 ms: by so much clocks may be off.
    (
        Mutant::TooLateNotCompensated,
        acquiring::an_answer_after_the_lease_has_run_out_is_given_back_and_a_new_token_tried,
    ),
    // The refusal must be overtaken by a command that was sent after it, and the lease must have run out between.
    (Mutant::OldRefusalBelieved, loss::a_renewal_that_was_refused_before_the_lock_was_taken_anew_is_none),
    // The lock must be taken away by force and granted again while one answer is under way.
    (Mutant::GrantForgetsOldReplies, granting::an_answer_from_before_the_grant_says_nothing_about_its_lease),
    // The first waiter must have said a much shorter lease than the next, and the server refuse to hear of that.
    (
        Mutant::NewestClaimAssumed,
        granting::a_grant_lasts_as_long_as_the_shortest_claim_that_may_stand_in_the_queue,
    ),
    // The clock must have been set back as well: else the tokens that were not reserved are in the past.
    (Mutant::MostFencesAssumed, granting::a_grant_comes_with_as_many_tokens_as_the_most_modest_question),
    // The simulation has no sessions.
    (Mutant::AnswerOfLostSessionBelieved, session::an_answer_from_the_lost_session_is_not_believed),
    (
        Mutant::HeartbeatOfLostSessionCounts,
        sessions::tests::a_lost_session_is_not_revived_by_its_own_late_heartbeat,
    ),
    (
        Mutant::SessionLeaseLeftToItself,
        session::a_lease_whose_ttl_is_over_is_given_back_before_its_body_has_ended,
    ),
    // Leases are shortened more than need be, which the promise after a step allows.
    (Mutant::ReplyBeforeStepIsAStep, server_clock::tests::a_reply_from_before_a_step_shows_no_other_step),
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
