//! Which events are counted, and under which label.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use metrics::with_local_recorder;
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::{MOST_LABELS, Metrics};
use crate::deadlock::{Holder, WaitsFor};
use crate::error::{LockError, LostReason};
use crate::lease_cell::How;
use crate::observe::{Event, LeaderStep, Lock, Observer, ReleaseOutcome};
use crate::outage::{LinkChange, LinkStart, OutageIs};
use crate::protocol::{EarlierCommands, Failure, LockKind, Notifications, StoreError, WaitRecord, Who};

const SECOND: Duration = Duration::from_secs(1);

type Label = Cow<'static, str>;

const ORDER: &Label = &Cow::Borrowed("order");
const A: &Label = &Cow::Borrowed("a");
const B: &Label = &Cow::Borrowed("b");
const C: &Label = &Cow::Borrowed("c");

static KEY: LazyLock<Arc<str>> = LazyLock::new(|| "a secret".into());

fn lock(label: &Label) -> Lock<'_> {
    Lock { label, key: &KEY, kind: LockKind::Exclusive, token: 1, fenced: false }
}

fn requested(label: &Label, keys: usize) -> Event<'_> {
    Event::Requested { label, kind: LockKind::Exclusive, keys }
}

fn acquired(label: &Label) -> Event<'_> {
    Event::Acquired { lock: lock(label), how: How::Granted, waited: SECOND }
}

fn released(label: &Label) -> Event<'_> {
    Event::Released { lock: lock(label), held: SECOND, outcome: ReleaseOutcome::Confirmed }
}

/// Everything that was recorded, as `name{label=value,…}` and the value; counters start at zero again.
fn recorded(snapshots: &Snapshotter) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    for (key, _, _, value) in snapshots.snapshot().into_vec() {
        let (kind, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
            DebugValue::Gauge(level) => level.into_inner(),
            DebugValue::Histogram(values) => values.iter().map(|value| value.into_inner()).sum(),
        };
        if kind == MetricKind::Gauge || value != 0.0 {
            found.push((format!("{}{{{}}}", key.name(), labels.join(",")), value));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

fn assert_recorded(snapshots: &Snapshotter, expected: &[(&str, f64)]) {
    let found = recorded(snapshots);
    let found: Vec<_> = found.iter().map(|(name, value)| (&**name, *value)).collect();
    assert_eq!(found, expected);
}

fn observe(events: &[Event<'_>]) -> Snapshotter {
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let metrics = Metrics::default();
    with_local_recorder(&recorder, || events.iter().for_each(|event| metrics.event(event)));
    snapshots
}

#[test]
fn a_lock_is_counted_from_its_request_to_its_release() {
    let snapshots = observe(&[requested(ORDER, 1), acquired(ORDER), released(ORDER)]);
    assert_recorded(
        &snapshots,
        &[
            ("distlock_acquired_total{label=order,how=granted}", 1.0),
            (concat!("distlock_build_info{version=", env!("CARGO_PKG_VERSION"), "}"), 1.0),
            ("distlock_held{label=order}", 0.0),
            ("distlock_hold_seconds{label=order}", 1.0),
            ("distlock_releases_total{label=order,outcome=confirmed}", 1.0),
            ("distlock_requests_total{label=order,outcome=acquired}", 1.0),
            ("distlock_wait_seconds{label=order,outcome=acquired}", 1.0),
            ("distlock_waiting{label=order}", 0.0),
        ],
    );
}

#[test]
fn what_is_not_over_is_in_the_gauges_and_several_keys_are_as_many() {
    let busy = LockError::busy("a secret");
    let failed = Event::NotAcquired { label: B, error: &busy, keys: 3, waited: SECOND };
    let gone = Event::Abandoned { label: C, keys: 1, waited: SECOND };
    let snapshots = observe(&[
        requested(A, 2),
        acquired(A),
        requested(B, 3),
        failed,
        requested(C, 1),
        requested(C, 1),
        gone,
    ]);
    let found = recorded(&snapshots);
    let value = |name: &str| found.iter().find(|(found, _)| found == name).map(|(_, value)| *value);
    assert_eq!(value("distlock_held{label=a}"), Some(1.0));
    assert_eq!(value("distlock_waiting{label=a}"), Some(1.0));
    assert_eq!(value("distlock_waiting{label=b}"), Some(0.0));
    assert_eq!(value("distlock_waiting{label=c}"), Some(1.0));
    assert_eq!(value("distlock_requests_total{label=b,outcome=busy}"), Some(3.0));
    assert_eq!(value("distlock_requests_total{label=c,outcome=abandoned}"), Some(1.0));
    assert_eq!(value("distlock_wait_seconds{label=b,outcome=not_acquired}"), Some(1.0));
    assert!(found.iter().all(|(name, _)| !name.contains("secret")), "{found:?}");
}

#[test]
fn a_renewal_is_late_when_less_than_half_of_the_lease_was_left() {
    let renewed = |left| Event::Renewed { lock: lock(A), left, remaining: SECOND * 3 };
    let snapshots = observe(&[renewed(SECOND * 2), renewed(SECOND), renewed(Duration::ZERO)]);
    let found = recorded(&snapshots);
    assert!(found.contains(&("distlock_renewals_total{label=a}".to_owned(), 3.0)), "{found:?}");
    assert!(found.contains(&("distlock_renewals_late_total{label=a}".to_owned(), 2.0)), "{found:?}");
}

/// A holder that is stuck, and a lease that comes near its end, are seen while they last.
#[test]
fn what_is_left_of_a_lease_is_measured_at_each_renewal() {
    let renewed = |left| Event::Renewed { lock: lock(A), left, remaining: SECOND * 3 };
    let found = recorded(&observe(&[renewed(SECOND * 2), renewed(SECOND)]));
    assert!(found.contains(&("distlock_lease_left_seconds{label=a}".to_owned(), 3.0)), "{found:?}");
}

#[test]
fn a_candidate_is_at_0_until_it_leads_and_its_terms_are_counted() {
    let step = |step| Event::Leader { label: A, key: &KEY, step };
    let ends = |lost| step(LeaderStep::TermEnds { term: 7, led: SECOND, lost });
    let (stands, begins) = (step(LeaderStep::Stands), step(LeaderStep::TermBegins { term: 7 }));
    let value = |events: &[Event<'_>], name: &str| {
        recorded(&observe(events)).into_iter().find(|(found, _)| found == name).map(|(_, value)| value)
    };
    assert_eq!(value(&[requested(A, 1)], "distlock_leader{label=a}"), None, "it is no office");
    assert_eq!(value(&[stands], "distlock_leader{label=a}"), Some(0.0));
    assert_eq!(value(&[stands, begins], "distlock_leader{label=a}"), Some(1.0));
    let all = [stands, begins, ends(Some(LostReason::Taken)), begins, ends(None)];
    assert_eq!(value(&all, "distlock_leader{label=a}"), Some(0.0));
    assert_eq!(value(&all, "distlock_leader_terms_total{label=a}"), Some(2.0));
    for how in ["lost", "resigned"] {
        assert_eq!(
            value(&all, &format!("distlock_leader_terms_ended_total{{label=a,how={how}}}")),
            Some(1.0)
        );
    }
    let metrics = Metrics::default();
    [stands, begins].iter().for_each(|event| metrics.event(event));
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    with_local_recorder(&recorder, || metrics.event(&requested(B, 1)));
    let found = recorded(&snapshots);
    assert!(found.contains(&("distlock_leader{label=a}".to_owned(), 1.0)), "a late recorder: {found:?}");
}

/// Two managers of a process stand for the same office.
#[test]
fn leaders_of_several_managers_are_added() {
    let step = |step| Event::Leader { label: A, key: &KEY, step };
    let (stands, begins) = (step(LeaderStep::Stands), step(LeaderStep::TermBegins { term: 7 }));
    let ends = step(LeaderStep::TermEnds { term: 7, led: SECOND, lost: None });
    let leaders = |of_one: &[Event<'_>], of_other: &[Event<'_>]| {
        let recorder = DebuggingRecorder::new();
        let snapshots = recorder.snapshotter();
        with_local_recorder(&recorder, || {
            let (one, other) = (Metrics::default(), Metrics::default());
            of_one.iter().for_each(|event| one.event(event));
            of_other.iter().for_each(|event| other.event(event));
        });
        let found = recorded(&snapshots);
        found.into_iter().find(|(name, _)| name == "distlock_leader{label=a}").map(|(_, value)| value)
    };
    assert_eq!(leaders(&[stands, begins], &[stands]), Some(1.0), "the other one waits");
    assert_eq!(leaders(&[stands, begins], &[stands, begins]), Some(2.0));
    assert_eq!(leaders(&[stands, begins, ends], &[stands, begins]), Some(1.0));
}

#[test]
fn a_loss_has_a_reason_and_its_lock_is_held_until_nobody_uses_it() {
    let lost = Event::Lost { lock: lock(A), reason: LostReason::Taken, held: SECOND };
    let left = Event::Released { lock: lock(A), held: SECOND, outcome: ReleaseOutcome::AfterLoss };
    let found = recorded(&observe(&[requested(A, 1), acquired(A), lost]));
    assert!(found.contains(&("distlock_lost_total{label=a,reason=taken}".to_owned(), 1.0)), "{found:?}");
    assert!(found.contains(&("distlock_held{label=a}".to_owned(), 1.0)), "{found:?}");
    let found = recorded(&observe(&[requested(A, 1), acquired(A), lost, left]));
    assert!(found.contains(&("distlock_held{label=a}".to_owned(), 0.0)), "{found:?}");
}

#[test]
fn labels_beyond_a_number_share_one() {
    let labels: Vec<Label> = (0..MOST_LABELS + 5).map(|number| format!("user {number}").into()).collect();
    let events: Vec<_> = labels.iter().map(|label| requested(label, 1)).collect();
    let found = recorded(&observe(&events));
    assert_eq!(
        found.iter().filter(|(name, _)| name.starts_with("distlock_waiting")).count(),
        MOST_LABELS + 1
    );
    assert!(found.contains(&("distlock_waiting{label=other}".to_owned(), 5.0)), "{found:?}");
}

/// Prometheus does not see the increase of a counter whose first sample is 1.
#[test]
fn losses_outages_and_failures_are_0_before_the_first_one() {
    let up = LinkChange::Up {
        start: LinkStart::AtOnce,
        earlier: EarlierCommands::Ended,
        pushes: Notifications::On,
    };
    let snapshots = observe(&[Event::Link { store: "redis at h", change: up }, requested(A, 1)]);
    let mut zeros: Vec<_> = snapshots
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(_, _, _, value)| *value == DebugValue::Counter(0))
        .map(|(key, ..)| {
            let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
            format!("{} {}", key.key().name(), labels.join(" ")).trim_end().to_owned()
        })
        .collect();
    zeros.sort();
    assert_eq!(
        zeros,
        [
            "distlock_deadlocks_total",
            "distlock_failed_total",
            "distlock_lost_total a expired",
            "distlock_lost_total a max_hold",
            "distlock_lost_total a shutdown",
            "distlock_lost_total a taken",
            "distlock_outages_total redis at h",
        ]
    );
}

#[test]
fn a_deadlock_counts_once_whatever_its_keys() {
    let mut graph = WaitsFor::default();
    for (key, wanted) in [("a", "b"), ("b", "a")] {
        let key: Arc<str> = key.into();
        let wait = WaitRecord { number: 1, beat: 1, began: 1, breaks: false, key: wanted.into() };
        let holder = Holder { owner: format!("dl1:{key}:1").into(), who: Who::default(), waits: vec![wait] };
        graph.insert(key, Some(holder));
    }
    let deadlock = Arc::new(graph.cycles().remove(0));
    let snapshots = observe(&[Event::Deadlock { deadlock: &deadlock }]);
    assert_recorded(&snapshots, &[("distlock_deadlocks_total{}", 1.0)]);
}

/// A program may install its recorder when locks are held already.
#[test]
fn a_recorder_that_comes_late_is_told_what_is_held() {
    let metrics = Metrics::default();
    metrics.event(&requested(A, 1));
    metrics.event(&acquired(A));
    metrics.event(&requested(A, 1));
    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    with_local_recorder(&recorder, || metrics.event(&released(A)));
    let found = recorded(&snapshots);
    assert!(found.contains(&("distlock_held{label=a}".to_owned(), 0.0)), "{found:?}");
    assert!(found.contains(&("distlock_waiting{label=a}".to_owned(), 1.0)), "{found:?}");
}

#[test]
fn the_link_is_a_level_and_its_outages_are_counted() {
    let cause = StoreError::new(Failure::Later, "gone");
    let link = |change| Event::Link { store: "redis at h", change };
    let up =
        |start| link(LinkChange::Up { start, earlier: EarlierCommands::Ended, pushes: Notifications::On });
    let down = |outage| link(LinkChange::Down { outage, cause: &cause });
    let events = [up(LinkStart::AtOnce), down(OutageIs::New), down(OutageIs::Known)];
    let snapshots = observe(&events);
    assert_recorded(
        &snapshots,
        &[
            ("distlock_link_up{store=redis at h}", 0.0),
            ("distlock_outages_total{store=redis at h}", 1.0),
            ("distlock_pushes_on{store=redis at h}", 0.0),
        ],
    );
    let events = [down(OutageIs::New), up(LinkStart::Again(SECOND * 2))];
    let found = recorded(&observe(&events));
    assert!(found.contains(&("distlock_link_up{store=redis at h}".to_owned(), 1.0)), "{found:?}");
    assert!(found.contains(&("distlock_outage_seconds{store=redis at h}".to_owned(), 2.0)), "{found:?}");
}
