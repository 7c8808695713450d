//! Sentinel with `min-replicas-to-write 1`: the new master refuses every write (NOREPLICAS) until a replica follows it.

use std::time::{Duration, Instant};

use distlock_tests::{SentinelGroup, eventually_blocking};

use crate::{
    load::{Keys, Load, turn},
    row,
};

/// Three processes with six tasks each. In a fail-over, each task may fail once in the three seconds for which it waits
/// for a server, and a few times when connections break. A task that treats NOREPLICAS as final would fail fifty times
/// a second.
fn few(fail_over: Duration) -> usize {
    let times = fail_over.as_secs() / 3 + 5;
    18 * usize::try_from(times).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel_replicas_required() {
    let _turn = turn().await;
    let mut group = SentinelGroup::start_with_required_replicas();
    let mut load = Load::start(&group.url(), Keys::of("k"));
    load.fault();
    let start = Instant::now();
    // The replica follows the new master only after the master has refused a write. Otherwise the test would not show a
    // task that treats the refusal as final.
    group.servers()[2].stop();
    group.first_master().kill9();
    eventually_blocking("the new master refuses a write", || {
        !group.servers()[1].info("errorstat_NOREPLICAS").is_empty()
    });
    group.servers()[2].cont();
    group.wait_until_failed_over();
    load.works();
    let fail_over = start.elapsed();
    let outcome = load.finish(&group.servers()[1..2]).await;
    let fault = "`min-replicas-to-write 1`, two replicas: master killed −9, the other replica stopped until a \
                 write was refused";
    row::print("Sentinel", fault, "sentinel_replicas_required", &outcome);
    outcome.assert_fenced();
    let errors: usize = outcome.errors.values().sum();
    assert!(errors < few(fail_over), "in {fail_over:?}: {:?}", outcome.errors);
}
