//! One test for each rule.

/// Makes a test of every rule: `contract!(MyFixture)`, or `contract!(MyFixture, lacks: queue, link)` with the words
/// that do not apply: see [the module](crate::testing::contract).
#[doc(hidden)]
#[macro_export]
macro_rules! __contract {
    ($fixture:ident $(,)?) => {
        $crate::__contract!($fixture, lacks:);
    };
    ($fixture:ident, lacks: $($lacking:ident),* $(,)?) => {
        $crate::__contract!(@tests $fixture [$($lacking)*]
            of_several_who_ask_at_once_one_gets_the_lock
            a_busy_key_names_its_holder_and_stays_with_it
            a_repeated_acquire_is_already_held
            a_holder_that_is_named_is_replaced
            a_replaced_lease_lasts_for_its_ttl_and_never_less
            a_repeated_acquire_makes_the_lease_last_for_its_ttl_and_never_less
            who_has_lost_the_lock_acquires_it_anew
            a_release_frees_the_key_before_it_is_answered
            a_release_of_somebody_else_frees_nothing
            a_holder_of_another_process_is_released
            a_key_stays_taken_for_as_long_as_its_release_said
            a_lease_lasts_for_its_ttl_from_the_call_and_then_ends
            a_lease_lasts_for_its_ttl_after_another_was_released
            the_clock_runs_at_most_1_percent_fast
            a_renewal_never_creates_a_lock
            a_renewal_makes_the_lease_last_for_its_ttl_and_never_less
            who_comes_after_an_expiry_acquires_the_lock
            fencing_tokens_rise_with_every_one_that_is_handed_out
            fencing_tokens_rise_over_an_expiry
            fencing_tokens_rise_over_a_restart
            a_waiter_is_told_when_the_lock_is_released
            a_granted_lock_is_its_owners
            an_owner_that_gets_the_lock_leaves_the_queue
            a_release_ends_a_place_in_the_queue
            waiters_keep_their_places_when_the_lock_is_replaced
            a_forced_release_serves_the_next_waiter
            a_grant_ends_with_its_claim
            a_place_whose_owner_does_not_ask_is_passed_over
            a_grant_is_not_older_than_it_says
            a_command_that_was_given_up_is_not_carried_out_after_5_s
            nothing_is_repeated_after_its_future_has_ended
            run_does_not_return_when_a_connection_ends
            a_command_for_several_keys_answers_for_each
            a_list_shows_what_is_held_on_one_of_its_pages
            a_text_is_shown_for_the_lease_of_its_owner_and_no_other
            an_examination_answers_and_changes_nothing
        );
    };
    (@tests $fixture:ident $lacks:tt $($rule:ident)*) => {
        $($crate::__contract!(@test $fixture $lacks $rule);)*
    };
    (@test $fixture:ident [$($lacking:ident)*] $rule:ident) => {
        #[test]
        fn $rule() {
            let lacks = [$($crate::testing::contract::words::$lacking),*];
            $crate::testing::contract::run::<$fixture>(stringify!($rule), &lacks);
        }
    };
}
