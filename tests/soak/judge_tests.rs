//! The judge finds each violation, and reports none if there is none.

use super::*;
use crate::record::Times;

fn section(entered: u64, left: u64) -> Section {
    Section {
        id: entered,
        kind: Kind::Exclusive,
        keys: vec!["k".to_owned()],
        token: None,
        times: Times { asked: entered, entered, left, ..Times::default() },
        min_hold: 0,
        cap: 0,
        write: Write::None,
    }
}

fn fenced(entered: u64, left: u64, token: u64) -> Section {
    Section { token: Some(token), ..section(entered, left) }
}

fn of_kind(kind: Kind, entered: u64, left: u64) -> Section {
    Section { kind, ..section(entered, left) }
}

fn judge(sections: Vec<Section>) -> Verdict {
    Judge::default().judge(&Round { sections, ..Round::default() })
}

fn failure(variant: &str, ended: u64) -> Failure {
    Failure {
        variant: variant.to_owned(),
        asked: 1_000,
        ended,
        stalled: 0,
        allowed: 1_000_000,
        how: String::new(),
    }
}

#[test]
fn sections_that_follow_each_other_break_nothing() {
    let verdict = judge(vec![fenced(10, 20, 1), fenced(20, 30, 2), fenced(30, 40, 5)]);
    assert_eq!((verdict.broken(), verdict.sections), (0, 3));
}

#[test]
fn an_overlap_of_exclusive_sections_is_found_whatever_the_order_of_the_reports() {
    assert_eq!(judge(vec![section(15, 25), section(10, 20)]).count(Breach::Overlap), 1);
}

#[test]
fn a_section_inside_another_is_an_overlap() {
    assert_eq!(judge(vec![section(10, 90), section(20, 30), section(40, 50)]).count(Breach::Overlap), 2);
}

#[test]
fn a_holder_that_did_not_believe_overlaps_with_no_other() {
    assert_eq!(judge(vec![section(10, 90), section(20, 0)]).count(Breach::Overlap), 0);
}

#[test]
fn readers_come_together_and_keep_writers_out() {
    let readers = || vec![of_kind(Kind::Shared, 10, 50), of_kind(Kind::Shared, 20, 60)];
    assert_eq!(judge(readers()).count(Breach::Overlap), 0);
    assert_eq!(judge([readers(), vec![section(40, 45)]].concat()).count(Breach::Overlap), 1);
    assert_eq!(judge(vec![section(5, 15), of_kind(Kind::Shared, 10, 50)]).count(Breach::Overlap), 1);
}

#[test]
fn more_holders_than_the_limit_are_an_overlap() {
    let holders = |count: u64| (0..count).map(|at| of_kind(Kind::Limited(2), 10 + at, 50)).collect();
    assert_eq!(judge(holders(2)).count(Breach::Overlap), 0);
    assert_eq!(judge(holders(3)).count(Breach::Overlap), 1);
}

#[test]
fn several_keys_are_judged_one_by_one() {
    let both = Section { keys: vec!["k".to_owned(), "l".to_owned()], ..section(10, 50) };
    let other = |key: &str| Section { keys: vec![key.to_owned()], ..section(20, 30) };
    assert_eq!(judge(vec![both.clone(), other("l")]).count(Breach::Overlap), 1);
    assert_eq!(judge(vec![both, other("m")]).count(Breach::Overlap), 0);
}

#[test]
fn who_enters_within_a_min_hold_is_found() {
    let kept = Section { min_hold: 400_000, ..section(10, 20) };
    let too_early =
        |entered| judge(vec![kept.clone(), section(entered, entered + 1)]).count(Breach::TooEarly);
    assert_eq!((too_early(200_000), too_early(400_000)), (1, 0));
}

#[test]
fn a_min_hold_keeps_out_only_those_whom_its_kind_excludes() {
    let kept = |kind| Section { min_hold: 400_000, ..of_kind(kind, 10, 20) };
    let too_early =
        |first, then| judge(vec![kept(first), of_kind(then, 200_000, 200_001)]).count(Breach::TooEarly);
    assert_eq!(too_early(Kind::Shared, Kind::Shared), 0);
    assert_eq!(too_early(Kind::Shared, Kind::Exclusive), 1);
    assert_eq!(too_early(Kind::Limited(1), Kind::Limited(1)), 1);
    assert_eq!(too_early(Kind::Limited(2), Kind::Limited(2)), 0);
}

#[test]
fn a_process_that_was_stopped_may_have_known_later_of_its_min_hold() {
    let times = Times { stalled: 250_000, ..section(10, 20).times };
    let kept = Section { min_hold: 400_000, times, ..section(10, 20) };
    assert_eq!(judge(vec![kept, section(200_000, 200_001)]).count(Breach::TooEarly), 0);
}

#[test]
fn a_token_that_is_used_twice_is_found_over_rounds() {
    let mut judge = Judge::default();
    let round = |entered| Round { sections: vec![fenced(entered, entered + 5, 7)], ..Round::default() };
    assert_eq!(judge.judge(&round(10)).count(Breach::RepeatedToken), 0);
    assert_eq!(judge.judge(&round(20)).count(Breach::RepeatedToken), 1);
}

#[test]
fn a_token_that_falls_is_found() {
    assert_eq!(judge(vec![fenced(10, 20, 7), fenced(30, 40, 6)]).count(Breach::FallingToken), 1);
    assert_eq!(
        judge(vec![fenced(10, 20, 7), fenced(15, 40, 6)]).count(Breach::FallingToken),
        0,
        "they overlap"
    );
}

#[test]
fn a_write_of_a_holder_that_is_refused_is_found() {
    let write = |write| judge(vec![Section { write, ..section(10, 20) }]).count(Breach::DisorderedWrite);
    assert_eq!(write(Write::RefusedWhileHeld), 1);
    assert_eq!(write(Write::Repeated), 1);
    assert_eq!(write(Write::RefusedAfterLoss), 0);
    assert_eq!(write(Write::Accepted), 0);
}

#[test]
fn a_lease_beyond_its_cap_is_found() {
    let capped = |left| judge(vec![Section { cap: 300_000, ..section(10, left) }]).count(Breach::TooLong);
    assert_eq!((capped(300_000), capped(400_000)), (0, 1));
}

#[test]
fn what_takes_too_long_is_found_unless_the_process_was_stopped() {
    let late = failure("Busy", 9_000_000);
    let stopped = Failure { stalled: 8_000_000, ..late.clone() };
    let overdue = |failure| {
        Judge::default().judge(&Round { failures: vec![failure], ..Round::default() }).count(Breach::Overdue)
    };
    assert_eq!((overdue(late), overdue(stopped)), (1, 0));
}

#[test]
fn an_error_of_another_kind_is_found() {
    let failures = vec![failure("Busy", 2_000), failure("WrongKind", 2_000)];
    let verdict = Judge::default().judge(&Round { failures, ..Round::default() });
    assert_eq!(verdict.count(Breach::Unexpected), 1);
}

#[test]
fn what_is_possible_by_design_is_counted_apart() {
    let round = Round {
        sections: vec![section(10, 20), section(15, 25), section(110, 120), section(115, 125)],
        excuses: vec![Excuse { from: 0, to: 30 }],
        ..Round::default()
    };
    let verdict = Judge::default().judge(&round);
    assert_eq!((verdict.count(Breach::Overlap), verdict.by_design), (1, 1));
}

#[test]
fn waits_are_counted_from_the_calm() {
    let waited = Section { times: Times { asked: 10, ..section(90, 95).times }, ..section(90, 95) };
    let round = Round { sections: vec![waited], calm: 50, ..Round::default() };
    assert_eq!(Judge::default().judge(&round).longest_wait, 40);
}

#[test]
fn excused_time_counts_once() {
    let spans = [(5, 12), (8, 15), (30, 40), (95, u64::MAX)];
    let excuses: Vec<_> = spans.into_iter().map(|(from, to)| Excuse { from, to }).collect();
    assert_eq!(excused(&excuses, 10, 100), Duration::from_micros(5 + 10 + 5));
    assert_eq!(excused(&[], 10, 100), Duration::ZERO);
}
