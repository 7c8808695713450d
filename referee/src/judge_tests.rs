//! Histories by hand: each kind of violation is found, and a clean history passes.

use super::*;
use crate::history::Release;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A request that was granted at `from` and released at `until`.
fn held(process: u64, sent: u64, from: u64, until: u64) -> Request {
    let release = Release { sent: ms(until), answered: Some(ms(until + 1)), confirmed: true };
    Request {
        place: process as usize,
        process,
        key: 0,
        wait: ms(1_000),
        sent: ms(sent),
        answered: Some(ms(from)),
        abandoned: None,
        section: Some(Section {
            token: None,
            from: ms(from),
            until: ms(until),
            end: End::Done,
            release: Some(release),
        }),
        failed: None,
    }
}

fn ending(mut request: Request, end: End) -> Request {
    if let Some(section) = &mut request.section {
        section.end = end;
        section.release = None;
    }
    request
}

fn with_token(mut request: Request, token: u64) -> Request {
    if let Some(section) = &mut request.section {
        section.token = Some(token);
    }
    request
}

fn unanswered(process: u64, sent: u64) -> Request {
    Request { answered: None, section: None, ..held(process, sent, sent, sent) }
}

fn fault(kind: FaultKind, process: Option<u64>, from: u64, until: u64) -> Fault {
    Fault { kind, process, from: ms(from), until: ms(until) }
}

fn judged(requests: Vec<Request>, faults: Vec<Fault>) -> Verdict {
    let (ttl, bound, end) = (ms(1_000), ms(5_000), ms(20_000));
    judge(&History { ttl, bound, end, requests, faults, ..History::default() })
}

#[test]
fn a_clean_history_passes() {
    let requests = vec![
        with_token(held(1, 0, 10, 100), 1),
        with_token(held(2, 0, 104, 200), 2),
        with_token(held(1, 150, 202, 300), 3),
        // Another key at the same time is another lock.
        Request { key: 1, ..held(2, 0, 10, 300) },
    ];
    let verdict = judged(requests, vec![]);
    assert_eq!(verdict.sections, 4);
    assert!(verdict.overlaps.is_empty() && verdict.tokens.is_empty() && verdict.hangs.is_empty());
    assert_eq!(verdict.hand_offs, [ms(2), ms(4)]);
    assert_eq!((verdict.hand_off(0.0), verdict.hand_off(1.0)), (Some(ms(2)), Some(ms(4))));
    assert!((verdict.fairness - 1.0).abs() < 1e-9);
}

#[test]
fn two_holders_without_a_fault_are_unexplained() {
    let verdict = judged(vec![held(1, 0, 10, 300), held(2, 0, 200, 250)], vec![]);
    assert_eq!(verdict.overlaps_by(Cause::Unexplained), 1);
    assert_eq!(verdict.longest(Cause::Unexplained), ms(50));
    assert!(verdict.overlaps[0].told_released);
    assert_eq!(verdict.overlaps[0].processes, (1, 2));
}

#[test]
fn each_pair_of_three_holders_is_found() {
    let verdict = judged(vec![held(1, 0, 10, 300), held(2, 0, 100, 300), held(3, 0, 200, 300)], vec![]);
    assert_eq!(verdict.overlaps.len(), 3);
}

#[test]
fn a_grant_at_the_instant_of_a_release_is_no_overlap() {
    assert!(judged(vec![held(1, 0, 10, 200), held(2, 0, 200, 250)], vec![]).overlaps.is_empty());
}

#[test]
fn a_holder_that_was_stopped_could_not_know() {
    let requests = vec![held(1, 0, 10, 3_000), held(2, 0, 2_000, 2_500)];
    let stopped = vec![fault(FaultKind::Stop, Some(1), 500, 2_200)];
    let verdict = judged(requests.clone(), stopped);
    assert_eq!((verdict.overlaps.len(), verdict.overlaps_by(Cause::Paused)), (1, 1));
    // A stop of the other process, or longer ago than a ttl, or after the second grant, explains nothing.
    for unrelated in [(2, 1_500, 1_700), (1, 500, 999), (1, 2_001, 2_200)] {
        let (process, from, until) = unrelated;
        let verdict = judged(requests.clone(), vec![fault(FaultKind::Stop, Some(process), from, until)]);
        assert_eq!(verdict.overlaps_by(Cause::Unexplained), 1, "{unrelated:?}");
    }
}

#[test]
fn a_holder_that_was_cut_off_ran_and_could_have_counted() {
    let requests = vec![held(1, 0, 10, 3_000), held(2, 0, 2_000, 2_500)];
    for fault in [fault(FaultKind::Cut, Some(1), 100, 1_900), fault(FaultKind::Server, None, 100, 1_900)] {
        let verdict = judged(requests.clone(), vec![fault]);
        assert_eq!(verdict.overlaps_by(Cause::CutOff), 1);
    }
}

#[test]
fn a_loss_that_is_told_after_the_second_grant_is_late() {
    let requests = vec![ending(held(1, 0, 10, 2_030), End::Lost), held(2, 0, 2_000, 2_500)];
    let verdict = judged(requests, vec![]);
    assert_eq!((verdict.overlaps_by(Cause::ToldLate), verdict.lost), (1, 1));
    assert_eq!(verdict.longest(Cause::ToldLate), ms(30));
    assert!(!verdict.overlaps[0].told_released);
}

#[test]
fn a_verdict_is_clean_unless_the_library_is_to_blame() {
    let told_after =
        |late: u64| vec![ending(held(1, 0, 10, 2_000 + late), End::Lost), held(2, 0, 2_000, 2_500)];
    let calm = History { ttl: ms(1_000), bound: ms(5_000), ..History::default() };
    let is_clean = |history: &History| judge(history).is_clean(history);
    for (late, clean) in [(250, true), (251, false)] {
        assert_eq!(is_clean(&History { requests: told_after(late), ..calm.clone() }), clean, "{late}");
    }
    // The second section is short, and the first holder reports the loss long after it.
    let requests = vec![ending(held(1, 0, 10, 2_900), End::Lost), held(2, 0, 2_000, 2_050)];
    assert!(!is_clean(&History { requests, ..calm.clone() }));
    let stop = |from, until| vec![fault(FaultKind::Stop, Some(1), from, until)];
    for (faults, clean) in [(stop(1_100, 1_200), true), (stop(100, 200), false)] {
        let requests = vec![held(1, 0, 10, 3_000), held(2, 0, 2_000, 2_500)];
        assert_eq!(is_clean(&History { requests, faults, ..calm.clone() }), clean);
    }
    assert!(!is_clean(&History { misbehaved: vec!["ended by itself".to_owned()], ..calm }));
}

#[test]
fn a_token_that_falls_or_repeats_is_found() {
    let first = with_token(held(1, 0, 10, 100), 7);
    let fell = judged(vec![first.clone(), with_token(held(2, 110, 120, 130), 6)], vec![]);
    assert_eq!(fell.tokens, [TokenFault { key: 0, at: ms(120), tokens: (7, 6) }]);
    let twice = judged(vec![first.clone(), with_token(held(2, 0, 120, 130), 7)], vec![]);
    assert_eq!(twice.tokens.len(), 1);
    // Both were requested before either grant was read, so their order is unknown.
    assert!(judged(vec![first.clone(), with_token(held(2, 0, 120, 130), 6)], vec![]).tokens.is_empty());
    let other_key = Request { key: 1, ..with_token(held(2, 110, 120, 130), 6) };
    assert!(judged(vec![first, other_key], vec![]).tokens.is_empty());
}

#[test]
fn a_request_without_an_answer_hangs() {
    let verdict = judged(vec![unanswered(1, 1_000)], vec![]);
    assert_eq!(verdict.hangs, [Hang { key: 0, sent: ms(1_000), late_by: ms(18_000) }]);
    // Time in which its process was stopped does not count, and neither does that of a process that was killed.
    assert!(
        judged(vec![unanswered(1, 1_000)], vec![fault(FaultKind::Stop, Some(1), 2_000, 19_000)])
            .hangs
            .is_empty()
    );
    let killed = Request { abandoned: Some(ms(3_000)), ..unanswered(1, 1_000) };
    assert!(judged(vec![killed], vec![]).hangs.is_empty());
}

#[test]
fn a_release_without_an_answer_hangs() {
    let mut request = held(1, 0, 10, 100);
    if let Some(release) = request.section.as_mut().and_then(|section| section.release.as_mut()) {
        release.answered = None;
    }
    assert_eq!(judged(vec![request], vec![]).hangs.len(), 1);
}

#[test]
fn recovery_is_from_the_end_of_a_fault_to_the_next_grant() {
    let server = fault(FaultKind::Server, None, 100, 1_000);
    assert_eq!(judged(vec![held(1, 0, 1_700, 1_800)], vec![server.clone()]).recovery, ms(700));
    assert_eq!(judged(vec![], vec![server]).recovery, ms(19_000), "no process got a lock after it");
}

#[test]
fn a_hand_off_near_a_fault_is_not_measured() {
    let requests = vec![held(1, 0, 10, 100), held(2, 0, 900, 950)];
    assert!(judged(requests, vec![fault(FaultKind::Server, None, 50, 120)]).hand_offs.is_empty());
}

#[test]
fn one_place_that_gets_all_is_unfair() {
    let requests = vec![held(1, 0, 10, 20), held(1, 20, 30, 40), held(1, 40, 50, 60), held(2, 0, 70, 80)];
    assert!((judged(requests, vec![]).fairness - 0.8).abs() < 1e-9);
}
