//! Without a rule of the protocol, a property is violated. The tests find the shortest path to the violation.

use distlock_model::{
    Rule,
    explore::explore_for,
    worlds::{self, Size},
};

/// One test for each rule: in this world, this property does not hold without the rule.
macro_rules! rules {
    ($($name:ident: $rule:ident in $world:ident => $property:literal;)*) => {
        $(
            #[test]
            fn $name() {
                let mutant = worlds::$world(Size::Small).without(Rule::$rule);
                let outcome = explore_for(&mutant, $property);
                assert!(outcome.counterexample.is_some(), "{} states, and no counterexample", outcome.states);
            }
        )*

        #[test]
        fn every_rule_is_here() {
            assert_eq!(Rule::ALL.to_vec(), vec![$(Rule::$rule),*]);
        }
    };
}

rules![
    fresh_while_held_is_a_loss: FreshIsALoss in delays => "a section that has ended stays ended";
    a_loss_is_final: LossIsFinal in delays => "a section that has ended stays ended";
    mine_extends_the_lease: MineExtends in delays => "at most one believes to hold the lock";
    a_reply_counts_from_its_request: ReplyCountsFromItsRequest in delays => "at most one believes to hold the lock";
    a_push_counts_from_its_grant: PushCountsFromItsGrant in pushes => "at most one believes to hold the lock";
    a_stale_push_is_ignored: StalePushIgnored in pushes => "at most one believes to hold the lock";
    a_renewal_never_shortens: RenewalNeverShortens in extensions => "at most one believes to hold the lock";
    a_repeated_leave_is_not_reported: RepeatedLeaveIsNotReported in broken_links => "a loss is reported only if there was one";
    leaves_are_repeated: LeavesAreRepeated in broken_links => "no lock is left that nobody knows of";
    the_kill_comes_first: KillComesFirst in broken_links => "no lock is left that nobody knows of";
    without_kill_leave_comes_once_more: LeaveOnceMoreWithoutKill in broken_links_without_kill => "no lock is left that nobody knows of";
    a_cancel_tests_the_key: CancelTestsTheKey in cancels => "no lock is left that nobody knows of";
    min_hold_replaces_the_token: MinHoldReplacesTheToken in kept => "nobody enters within a min_hold";
    tokens_are_fresh: TokensAreFresh in delays => "at most one believes to hold the lock";
    a_leave_compares: LeaveCompares in delays => "at most one believes to hold the lock";
    no_hand_on_after_leave: NoHandOnAfterLeave in chains => "at most one believes to hold the lock";
    no_hand_on_after_loss: NoHandOnAfterLoss in chains => "at most one believes to hold the lock";
    tokens_are_reserved: TokensAreReserved in chains => "fencing tokens rise from section to section";
    a_fence_is_drawn_at_the_grant: FenceIsDrawnAtTheGrant in delays => "fencing tokens rise from section to section";
    a_direct_acquire_leaves_the_queue: DirectAcquireLeavesTheQueue in pushes => "no place in the queue is left that nobody stands on";
    dead_entries_are_skipped: DeadEntriesAreSkipped in dead_waiters => "nobody waits for too long";
    waiters_keep_asking: WaitersKeepAsking in progress => "nobody waits for too long";
];
