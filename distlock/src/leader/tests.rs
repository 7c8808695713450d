//! The pause between two campaigns, on a clock that the test pauses.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backend::{Events, Failure, LinkEvent, Pushes, StoreError};
use crate::fault::Fault;
use crate::testing::{TestStore, fail_next, planned};

const OFFICE: &str = "office";

/// So many failures that the next pause is one of the longest.
const FAILURES: usize = 10;

fn down() -> LinkEvent {
    LinkEvent::Down { cause: StoreError::new(Failure::NotSent, "connection refused") }
}

const UP: LinkEvent = LinkEvent::Up { former_links_dead: true, pushes: Pushes::On };

#[tokio::test(start_paused = true)]
async fn a_pause_ends_when_the_connection_is_up_again() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    for _ in 0..FAILURES {
        fail_next(&manager, OFFICE, Fault::Unavailable);
    }
    let candidate = manager.leader(OFFICE);
    let leads = tokio::spawn(async move { candidate.run(async |_| Instant::now()).await });
    while planned(&manager) > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // A connection that is lost ends no pause.
    manager.core().link(down());
    sleep(Duration::from_millis(100)).await;
    assert!(!leads.is_finished());
    let up = Instant::now();
    manager.core().link(UP);
    let led = leads.await.unwrap().unwrap();
    assert!(led - up < Duration::from_millis(100), "{:?}", led - up);
}

/// What a campaign has met itself is no news: the pause is as long as ever.
#[tokio::test(start_paused = true)]
async fn a_pause_is_kept_while_the_connection_stays_as_it_is() {
    let store = TestStore::on_paused_time();
    let manager = store.process();
    for _ in 0..FAILURES {
        fail_next(&manager, OFFICE, Fault::Unavailable);
    }
    let begun = Instant::now();
    manager.leader(OFFICE).run(async |_| ()).await.unwrap();
    assert!(begun.elapsed() > Duration::from_secs(8), "{:?}", begun.elapsed());
}
