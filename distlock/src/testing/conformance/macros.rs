//! One test for each rule that applies.

/// Makes a test of every rule: `conformance!(MyFixture)`, or `conformance!(MyFixture, lacks: shared, queue)` with the
/// words that do not apply: see [the module](crate::testing::conformance). The tests are in modules by their subject.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance {
    ($fixture:ident $(,)?) => {
        $crate::__conformance!($fixture, lacks:);
    };
    ($fixture:ident, lacks: $($lacking:ident),* $(,)?) => {
        $crate::__conformance!(@tests $fixture exclusion:
            one_holder_at_a_time_among_tasks_and_managers different_keys_do_not_exclude_each_other
            a_busy_key_is_free_again_after_the_release keys_may_hold_any_text
            a_lock_that_is_not_fenced_has_no_token
        );
        $crate::__conformance!(@tests $fixture waiting:
            try_acquire_of_a_busy_key_is_none_at_once no_wait_is_busy_at_once
            a_wait_ends_busy_and_says_for_what_and_how_long a_waiter_gets_the_lock_when_it_is_released
            try_acquire_with_a_wait_waits wait_forever_outlives_the_default_wait
            retries_are_so_many_further_attempts a_retry_gets_a_lock_that_became_free
            every_waiter_gets_its_turn a_lock_that_nobody_picks_up_is_passed_on_when_its_ttl_is_over
            a_lock_that_is_handed_on_and_not_picked_up_is_passed_on_when_its_own_ttl_is_over
            behind_a_request_that_is_not_polled_nobody_is_told_that_the_store_is_away
            a_request_that_was_not_polled_in_time_says_that_nothing_was_run
            more_waiters_than_are_allowed_are_turned_away_at_once
        );
        $crate::__conformance!(@tests $fixture lease:
            a_renewed_lease_outlives_its_ttl without_renewal_the_ttl_is_a_hard_limit max_hold_caps_renewal
            remaining_lies_within_the_ttl extend_moves_the_end_of_the_lease extend_never_shortens
            a_lost_guard_says_so_in_every_way
        );
        $crate::__conformance!(@tests $fixture loss:
            a_forced_release_reaches_the_holder_with_its_next_renewal
            a_forced_release_by_its_own_manager_reaches_the_holder_at_once
            the_body_of_run_stops_at_its_next_await a_body_that_completes_keeps_its_value
        );
        $crate::__conformance!(@tests $fixture release:
            a_dropped_guard_is_released a_guard_may_be_dropped_on_a_plain_thread
            the_body_of_run_is_over_before_the_release_and_the_release_before_run_returns
            a_panicking_body_releases a_cancelled_run_releases
            a_release_after_force_release_is_reported_as_lost a_late_release_does_not_free_the_next_holder
            managers_may_be_dropped_before_their_guards
            a_release_in_the_background_is_ahead_of_the_next_acquisition_of_its_process
            a_release_in_the_background_reaches_other_processes
            a_shutdown_waits_for_releases_in_the_background
        );
        $crate::__conformance!(@tests $fixture operations:
            a_free_lock_has_nothing_to_inspect inspect_shows_the_holder
            force_release_frees_the_lock force_release_of_a_free_lock_changes_nothing
            force_release_from_leaves_the_lock_to_its_next_holder
            force_release_from_takes_the_lock_from_the_holder_that_is_named
        );
        $crate::__conformance!(@tests $fixture several_keys:
            all_of_them_are_held_and_all_are_released one_busy_key_keeps_all_the_others_free
            while_one_is_awaited_those_before_it_are_held_and_those_behind_it_are_free
            keys_that_are_in_use_in_this_process_are_awaited_in_order_too max_hold_counts_from_the_guard
            a_guard_that_is_not_renewed_lives_for_its_ttl
            what_is_in_hand_is_given_back_if_nobody_looks_after_it an_acquire_may_be_dropped_anywhere
            a_waiting_acquire_may_be_dropped a_release_may_be_dropped_anywhere
            the_order_of_the_keys_and_repetitions_do_not_matter
            callers_with_overlapping_keys_do_not_wait_in_a_circle no_key_at_all_or_a_bad_one_is_invalid
        );
        $crate::__conformance!(@tests $fixture reentry:
            the_same_key_inside_its_own_section_would_deadlock another_key_inside_a_section_is_fine
            a_spawned_task_is_not_nested is_held_here_knows_the_section
        );
        $crate::__conformance!(@tests $fixture threads:
            a_thousand_threads_take_turns a_worker_of_a_runtime_may_block a_thread_enters_again_what_it_holds
            several_keys_are_for_threads_too
        );
        $crate::__conformance!(@tests $fixture attribute:
            an_async_function_holds_its_key_while_it_runs a_method_takes_its_manager_and_key_from_self
            a_plain_function_locks_on_its_thread a_busy_lock_is_an_error_or_the_value_asked_for
            several_keys_are_held_together a_dropped_call_releases
        );
        $crate::__conformance!(@listing $fixture [$($lacking)*]);
        $crate::__conformance!(@shared $fixture [$($lacking)*]);
        $crate::__conformance!(@limited $fixture [$($lacking)*]);
        $crate::__conformance!(@fencing $fixture [$($lacking)*]);
        $crate::__conformance!(@min_hold $fixture [$($lacking)*]);
        $crate::__conformance!(@linger $fixture [$($lacking)*]);
        $crate::__conformance!(@linger_and_fencing $fixture [$($lacking)*]);
        $crate::__conformance!(@processes $fixture [$($lacking)*]);
        $crate::__conformance!(@queue $fixture [$($lacking)*]);
        $crate::__conformance!(@link $fixture [$($lacking)*]);
        $crate::__conformance!(@ttl $fixture [$($lacking)*]);
        $crate::__conformance!(@leader_and_link $fixture [$($lacking)*]);
        $crate::__conformance!(@values $fixture [$($lacking)*]);
        $crate::__conformance!(@deadlocks $fixture [$($lacking)*]);
        $crate::__conformance!(@deadlocks_and_listing $fixture [$($lacking)*]);
        $crate::__conformance!(@hand_over $fixture [$($lacking)*]);
        $crate::__conformance!(@hand_over_and_fencing $fixture [$($lacking)*]);
        $crate::__conformance!(@hand_over_and_link $fixture [$($lacking)*]);
        $crate::__conformance!(@kinds $fixture [$($lacking)*]);
        $crate::__conformance!(@kinds_and_min_hold $fixture [$($lacking)*]);
        $($crate::__conformance!(@is_known $lacking);)*
    };
    (@tests $fixture:ident $about:ident: $($rule:ident)*) => {
        mod $about {
            use super::*;
            $(
                #[test]
                fn $rule() {
                    $crate::testing::conformance::run::<$fixture>(|place| {
                        ::std::boxed::Box::pin($crate::testing::conformance::rules::$about::$rule(place))
                    });
                }
            )*
        }
    };
    (@not_applicable $fixture:ident $about:ident) => {
        mod $about {
            use super::*;
            #[test]
            fn not_applicable() {
                $crate::testing::conformance::run::<$fixture>(|place| {
                    ::std::boxed::Box::pin($crate::testing::conformance::rules::lacking::$about(place))
                });
            }
        }
    };
    (@listing $fixture:ident [listing $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture listing);
    };
    (@listing $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@listing $fixture [$($rest)*]);
    };
    (@listing $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture listing:
            a_list_shows_the_locks_of_all_managers_once_each a_list_leaves_out_what_its_pattern_does_not_match
            a_list_shows_who_waits a_long_list_comes_whole
        );
    };
    (@shared $fixture:ident [shared $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture shared);
    };
    (@shared $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@shared $fixture [$($rest)*]);
    };
    (@shared $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture shared:
            readers_share_and_exclude_a_writer a_writer_excludes_readers a_waiting_writer_gets_its_turn
            readers_share_all_of_them_and_writers_none inspect_and_busy_name_those_who_hold_a_shared_lock
            a_forced_release_reaches_the_readers_at_once readers_may_be_threads
            readers_come_together_and_keep_writers_out
            one_of_several_readers_is_taken_out_by_force
        );
        $crate::__conformance!(@rule $fixture joining a_reader_that_joins_outlives_the_first_one);
    };
    (@limited $fixture:ident [limited $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture limited);
    };
    (@limited $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@limited $fixture [$($rest)*]);
    };
    (@limited $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture limited:
            no_more_holders_than_the_limit the_place_of_a_lost_holder_is_free_again
            kinds_and_limits_do_not_mix a_limited_lock_among_several_keys_is_named_and_nothing_is_kept
            inspect_and_busy_name_those_who_hold_a_limited_lock a_forced_release_reaches_the_holders_at_once
            holders_may_be_threads no_more_than_the_limit_run_at_once
        );
        $crate::__conformance!(@rule $fixture joining a_holder_that_joins_outlives_the_first_one);
    };
    (@fencing $fixture:ident [fencing $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture fencing);
    };
    (@fencing $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@fencing $fixture [$($rest)*]);
    };
    (@fencing $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture fencing:
            tokens_increase_from_holder_to_holder tokens_increase_over_an_expiry
            tokens_increase_among_tasks_and_managers tokens_increase_from_call_to_call
        );
        $crate::__conformance!(@tests $fixture leader:
            terms_increase_and_do_not_overlap
            a_leader_that_is_removed_stops_and_leads_again_in_a_later_term
            a_leader_that_is_dropped_is_followed_at_once a_leader_resigns_when_its_body_returns_or_panics
            a_shutdown_ends_candidacies_and_the_next_one_leads
            a_leader_that_watches_for_the_shutdown_ends_before_its_grace a_watch_shows_who_leads
            a_candidacy_may_be_dropped_anywhere an_office_without_a_valid_name_or_lease_is_refused
        );
    };
    (@min_hold $fixture:ident [min_hold $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture min_hold);
    };
    (@min_hold $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@min_hold $fixture [$($rest)*]);
    };
    (@min_hold $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture min_hold:
            min_hold_keeps_the_key_after_the_release min_hold_keeps_the_key_after_a_drop
            min_hold_outlives_a_loss_by_max_hold min_hold_outlives_a_shutdown min_hold_counts_from_the_guard
            min_hold_keeps_no_key_of_a_collection_that_was_lost
            a_key_that_is_kept_is_freed_by_force
        );
    };
    (@linger $fixture:ident [linger $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture linger);
    };
    (@linger $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@linger $fixture [$($rest)*]);
    };
    (@linger $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture linger:
            sections_of_one_process_come_back_to_the_lock_that_it_keeps another_process_gets_a_lock_that_lingers
            another_process_gets_it_although_sections_follow_each_other
            sections_never_overlap_although_locks_linger a_shutdown_gives_back_what_lingers
            a_manager_that_is_dropped_gives_back_what_lingers
            a_release_in_the_background_and_a_dropped_guard_let_it_linger_too
            the_manager_says_for_how_long_if_a_request_does_not a_lock_that_lingers_can_be_taken_away
            it_is_refused_for_what_it_is_not_for
        );
    };
    // Locks that linger, and fencing tokens.
    (@linger_and_fencing $fixture:ident [fencing $($rest:ident)*]) => {};
    (@linger_and_fencing $fixture:ident [linger $($rest:ident)*]) => {};
    (@linger_and_fencing $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@linger_and_fencing $fixture [$($rest)*]);
    };
    (@linger_and_fencing $fixture:ident []) => {
        mod linger_and_fencing {
            use super::*;
            #[test]
            fn tokens_increase_from_section_to_section_and_to_the_next_process() {
                $crate::testing::conformance::run::<$fixture>(|place| {
                    ::std::boxed::Box::pin(
                        $crate::testing::conformance::rules::linger::
                            tokens_increase_from_section_to_section_and_to_the_next_process(place),
                    )
                });
            }
        }
    };
    (@processes $fixture:ident [processes $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture processes);
    };
    (@processes $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@processes $fixture [$($rest)*]);
    };
    (@processes $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture processes:
            a_key_prefix_separates_managers_and_is_not_shown one_that_ends_gives_back_what_it_holds
        );
    };
    (@queue $fixture:ident [queue $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture queue);
    };
    (@queue $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@queue $fixture [$($rest)*]);
    };
    (@queue $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture queue:
            a_thousand_threads_are_one_place_in_it who_has_gone_does_not_stand_in_it
        );
    };
    (@link $fixture:ident [link $($rest:ident)*]) => {};
    (@link $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@link $fixture [$($rest)*]);
    };
    (@link $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture link:
            without_a_link_a_request_is_unavailable_in_time
            a_holder_outlives_a_cut_that_is_shorter_than_its_lease
            a_holder_without_a_link_knows_when_its_lease_is_over a_release_without_a_link_is_made_up_for
            a_waiter_gets_the_lock_although_the_link_was_cut an_acquire_may_be_cut_off_anywhere
        );
    };
    (@ttl $fixture:ident [ttl $($rest:ident)*]) => {};
    (@ttl $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@ttl $fixture [$($rest)*]);
    };
    (@ttl $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture ttl: inspect_shows_the_remaining_time);
    };
    // A leader and a link.
    (@leader_and_link $fixture:ident [fencing $($rest:ident)*]) => {};
    (@leader_and_link $fixture:ident [link $($rest:ident)*]) => {};
    (@leader_and_link $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@leader_and_link $fixture [$($rest)*]);
    };
    (@leader_and_link $fixture:ident []) => {
        mod leader_and_link {
            use super::*;
            #[test]
            fn without_a_link_the_term_ends_and_another_begins_when_it_is_mended() {
                $crate::testing::conformance::run::<$fixture>(|place| {
                    ::std::boxed::Box::pin(
                        $crate::testing::conformance::rules::leader::
                            without_a_link_the_term_ends_and_another_begins_when_it_is_mended(place),
                    )
                });
            }
        }
    };
    // The text that a leader publishes.
    (@values $fixture:ident [fencing $($rest:ident)*]) => {};
    (@values $fixture:ident [values $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture values);
    };
    (@values $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@values $fixture [$($rest)*]);
    };
    (@values $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture values:
            watchers_see_each_leader_once_in_order_with_its_value
            a_value_is_that_of_one_term_and_any_text a_value_that_is_too_long_is_refused
        );
    };
    // Holders that wait for each other.
    (@deadlocks $fixture:ident [values $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture deadlocks);
    };
    (@deadlocks $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@deadlocks $fixture [$($rest)*]);
    };
    (@deadlocks $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture deadlocks:
            two_that_wait_for_each_other_are_seen_by_both three_that_wait_in_a_circle_are_seen_by_all
            who_waits_for_a_slow_holder_is_in_no_deadlock_and_its_record_ends_with_the_wait
            a_request_that_leaves_the_section_around_it_is_recorded_there_no_longer
            the_youngest_request_ends_and_the_other_one_gets_its_lock
        );
    };
    (@deadlocks_and_listing $fixture:ident [values $($rest:ident)*]) => {};
    (@deadlocks_and_listing $fixture:ident [listing $($rest:ident)*]) => {};
    (@deadlocks_and_listing $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@deadlocks_and_listing $fixture [$($rest)*]);
    };
    (@deadlocks_and_listing $fixture:ident []) => {
        $crate::__conformance!(@rule $fixture deadlocks a_manager_lists_the_deadlocks_of_others);
    };
    // Locks that continue in another process.
    (@hand_over $fixture:ident [hand_over $($rest:ident)*]) => {
        $crate::__conformance!(@not_applicable $fixture hand_over);
    };
    (@hand_over $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@hand_over $fixture [$($rest)*]);
    };
    (@hand_over $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture hand_over:
            a_lock_that_is_handed_over_is_never_free_in_between who_hands_over_is_told_and_may_end
            a_ticket_is_good_for_one_take_over a_ticket_ends_with_its_lease
            who_waits_gets_the_lock_if_nobody_takes_it_over who_takes_over_holds_it_like_any_other
            what_cannot_be_handed_over_is_refused_and_released
        );
    };
    (@hand_over_and_fencing $fixture:ident [hand_over $($rest:ident)*]) => {};
    (@hand_over_and_fencing $fixture:ident [fencing $($rest:ident)*]) => {};
    (@hand_over_and_fencing $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@hand_over_and_fencing $fixture [$($rest)*]);
    };
    (@hand_over_and_fencing $fixture:ident []) => {
        $crate::__conformance!(@rule $fixture hand_over tokens_rise_from_one_holder_to_the_next_by_tickets);
    };
    (@hand_over_and_link $fixture:ident [hand_over $($rest:ident)*]) => {};
    (@hand_over_and_link $fixture:ident [link $($rest:ident)*]) => {};
    (@hand_over_and_link $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@hand_over_and_link $fixture [$($rest)*]);
    };
    (@hand_over_and_link $fixture:ident []) => {
        $crate::__conformance!(@rule $fixture hand_over a_take_over_may_be_cut_off_anywhere);
    };
    // Locks of two kinds at a time.
    (@kinds $fixture:ident [shared $($rest:ident)*]) => {};
    (@kinds $fixture:ident [limited $($rest:ident)*]) => {};
    (@kinds $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@kinds $fixture [$($rest)*]);
    };
    (@kinds $fixture:ident []) => {
        $crate::__conformance!(@tests $fixture kinds:
            shared_and_limited_locks_do_not_mix a_lock_of_another_kind_among_them_is_named_and_nothing_is_kept
            a_reentrant_call_gets_no_more_than_its_section_has
        );
        $crate::__conformance!(@rule $fixture joining who_joins_keeps_other_kinds_out_when_the_first_has_gone);
    };
    // Locks of two kinds, with `min_hold`.
    (@kinds_and_min_hold $fixture:ident [shared $($rest:ident)*]) => {};
    (@kinds_and_min_hold $fixture:ident [limited $($rest:ident)*]) => {};
    (@kinds_and_min_hold $fixture:ident [min_hold $($rest:ident)*]) => {};
    (@kinds_and_min_hold $fixture:ident [$other:ident $($rest:ident)*]) => {
        $crate::__conformance!(@kinds_and_min_hold $fixture [$($rest)*]);
    };
    (@kinds_and_min_hold $fixture:ident []) => {
        $crate::__conformance!(@rule $fixture joining who_joins_outlives_a_min_hold);
    };
    // A rule outside the modules, because it is about what several of them are about.
    (@rule $fixture:ident $about:ident $rule:ident) => {
        #[test]
        fn $rule() {
            $crate::testing::conformance::run::<$fixture>(|place| {
                ::std::boxed::Box::pin($crate::testing::conformance::rules::$about::$rule(place))
            });
        }
    };
    (@is_known shared) => {};
    (@is_known limited) => {};
    (@is_known fencing) => {};
    (@is_known min_hold) => {};
    (@is_known linger) => {};
    (@is_known processes) => {};
    (@is_known queue) => {};
    (@is_known link) => {};
    (@is_known ttl) => {};
    (@is_known listing) => {};
    (@is_known values) => {};
    (@is_known hand_over) => {};
    (@is_known $word:ident) => {
        compile_error!(concat!(
            "`", stringify!($word), "` is not an ability that a fixture can lack: expected `shared`, \
                                     `limited`, `fencing`, `min_hold`, `linger`, `processes`, `queue`, \
                                     `link`, `listing`, `values`, `hand_over` or `ttl`"
        ));
    };
}
