//! A table of mistakes, and of the rules that find them.

use std::collections::HashSet;

use distlock::testing::contract::{check, rule_names};
use distlock_toy_store::{Mistake, ToyStore};

use crate::fixture::on_the_toy_server;

macro_rules! mistakes {
    ($($mistake:ident: $($rule:ident),+;)+) => {
        /// The compiler requires every mistake here.
        fn found_by(mistake: Mistake) -> &'static [&'static str] {
            match mistake {
                $(Mistake::$mistake => &[$(stringify!($rule)),+],)+
            }
        }

        const ALL: &[Mistake] = &[$(Mistake::$mistake),+];

        $(
            #[test]
            #[allow(non_snake_case, reason = "the name of the mistake")]
            fn $mistake() {
                on_the_toy_server!(Toy, ToyStore::with_queue, Mistake::$mistake);
                for rule in found_by(Mistake::$mistake) {
                    let broken = check::<Toy>(rule, &[]);
                    println!("{rule}: {}", broken.expect_err("the rule finds the mistake"));
                }
            }
        )+
    };
}

mistakes! {
    LooksAndThenTakes: of_several_who_ask_at_once_one_gets_the_lock;
    ReleasesLater: a_release_frees_the_key_before_it_is_answered;
    EndsEarly: a_lease_lasts_for_its_ttl_from_the_call_and_then_ends;
    CutsToSeconds: a_lease_lasts_for_its_ttl_from_the_call_and_then_ends;
    TakesAnotherUnit: a_lease_lasts_for_its_ttl_from_the_call_and_then_ends;
    CountsFromBeforeTheCall: a_lease_lasts_for_its_ttl_from_the_call_and_then_ends;
    CountsFromAnEarlierLease: a_lease_lasts_for_its_ttl_after_another_was_released;
    ClockIsTwoPercentFast: the_clock_runs_at_most_1_percent_fast;
    ClockIsTenPercentFast: the_clock_runs_at_most_1_percent_fast;
    HeldIsAcquired: a_repeated_acquire_is_already_held;
    AcquiredIsHeld: who_has_lost_the_lock_acquires_it_anew, who_comes_after_an_expiry_acquires_the_lock;
    NamesSomebodyElse: a_busy_key_names_its_holder_and_stays_with_it;
    OwnersAreInTheirOwnWay: a_repeated_acquire_is_already_held;
    AcquireShortens: a_repeated_acquire_makes_the_lease_last_for_its_ttl_and_never_less;
    ReplacesAnybody: a_holder_that_is_named_is_replaced;
    ReplaceKeepsTheEnd: a_replaced_lease_lasts_for_its_ttl_and_never_less;
    ReplaceForgetsTheQueue: waiters_keep_their_places_when_the_lock_is_replaced;
    RenewShortens: a_renewal_makes_the_lease_last_for_its_ttl_and_never_less;
    RenewCreates: a_renewal_never_creates_a_lock;
    RenewSaysYes: a_renewal_never_creates_a_lock;
    RenewDoesNothing: a_renewal_makes_the_lease_last_for_its_ttl_and_never_less;
    ReleasesForAnybody: a_release_of_somebody_else_frees_nothing;
    ReleasesOnlyItsOwn: a_holder_of_another_process_is_released;
    ReleaseKeepsPlace: a_release_ends_a_place_in_the_queue;
    ReleaseServesNobody: a_waiter_is_told_when_the_lock_is_released;
    ForceServesNobody: a_forced_release_serves_the_next_waiter;
    IgnoresKeep: a_key_stays_taken_for_as_long_as_its_release_said;
    GrantKeepsPlace: an_owner_that_gets_the_lock_leaves_the_queue;
    IgnoresClaim: a_grant_ends_with_its_claim;
    GrantsToNobody: a_granted_lock_is_its_owners;
    GrantsAreAlwaysNew: a_grant_is_not_older_than_it_says;
    PlacesStay: a_place_whose_owner_does_not_ask_is_passed_over;
    NotifiesNobody: a_waiter_is_told_when_the_lock_is_released;
    LosesNotifications: a_waiter_is_told_when_the_lock_is_released;
    ReusesBlocks: fencing_tokens_rise_with_every_one_that_is_handed_out;
    ReusesFencesOfTheExpired: fencing_tokens_rise_over_an_expiry;
    FencesBeginAnewAfterARestart: fencing_tokens_rise_over_a_restart;
    CarriesOutLateCommands: a_command_that_was_given_up_is_not_carried_out_after_5_s;
    SendsAgain: nothing_is_repeated_after_its_future_has_ended;
    RunReturns: run_does_not_return_when_a_connection_ends;
    TriesBehindABusyKey: a_command_for_several_keys_answers_for_each;
    AnswersInOrderOfKeys: a_command_for_several_keys_answers_for_each;
    RenewAllCreates: a_command_for_several_keys_answers_for_each;
    ListsTooFew: a_list_shows_what_is_held_on_one_of_its_pages;
    ListsEverything: a_list_shows_what_is_held_on_one_of_its_pages;
    TextOutlivesItsLease: a_text_is_shown_for_the_lease_of_its_owner_and_no_other;
    AskingUnpublishes: a_text_is_shown_for_the_lease_of_its_owner_and_no_other;
    UnpublishesForAnybody: a_text_is_shown_for_the_lease_of_its_owner_and_no_other;
    ExaminationEndsLeases: an_examination_answers_and_changes_nothing;
}

#[test]
fn every_rule_finds_a_mistake() {
    let finders: HashSet<&str> = ALL.iter().flat_map(|mistake| found_by(*mistake)).copied().collect();
    for rule in rule_names() {
        assert!(finders.contains(rule), "`{rule}`");
    }
}
