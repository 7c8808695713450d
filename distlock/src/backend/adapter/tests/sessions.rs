//! Leases that live as long as the session.

use std::time::Duration;

use super::*;
use crate::backend::Failure;
use distlock_store::LeaseRule;
use distlock_store::clock;

const TIMEOUT: Duration = Duration::from_secs(10);

fn with_session() -> Abilities {
    queueing().lease(LeaseRule::Session)
}

#[tokio::test(start_paused = true)]
async fn without_a_session_nothing_is_acquired_but_everything_is_given_back() {
    let mut rig = Rig::down(with_session()).await;
    rig.events.up(EarlierCommands::Ended);
    rig.script.is_quiet().await;
    assert_eq!(rig.told(), [], "who connects waits for the session, too");
    let error = rig.send("k", attempt(1)).await.unwrap().unwrap_err();
    assert_eq!(error.kind, Failure::NotSent);
    assert!(error.to_string().contains("session"), "{error}");
    let release = rig.send("k", leave(1));
    let (_, answer) = rig.script.next_release().await;
    answer.send(Ok(ReleaseReply::NotHeld)).unwrap();
    release.await.unwrap().unwrap();
    rig.events.heartbeat().answered(TIMEOUT);
    rig.script.is_quiet().await;
    let acquiring = rig.send("k", attempt(2));
    let (_, answer) = rig.script.next_acquire().await;
    answer.send(acquired()).unwrap();
    acquiring.await.unwrap().unwrap();
    assert_eq!(rig.told(), [Told::Up { earlier: EarlierCommands::Ended, pushes: Notifications::On }]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_is_told_before_the_next_one_counts() {
    let mut rig = Rig::down(with_session()).await;
    rig.events.up(EarlierCommands::Ended);
    let session = rig.backend.tuning().leases.session().unwrap().clone();
    rig.events.heartbeat().answered(TIMEOUT);
    let late = rig.events.heartbeat();
    rig.events.session_lost();
    rig.script.is_quiet().await;
    assert_eq!(
        rig.told(),
        [Told::Up { earlier: EarlierCommands::Ended, pushes: Notifications::On }, Told::SessionLost]
    );
    late.answered(TIMEOUT);
    rig.script.is_quiet().await;
    assert!(session.is_over(clock::now()), "the heartbeat was the old session's");
    // The next session begins at once, before any task has noticed the loss.
    rig.events.session_lost();
    rig.events.heartbeat().answered(TIMEOUT);
    rig.script.is_quiet().await;
    assert!(!session.is_over(clock::now()));
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_deadline_has_passed_is_lost_although_its_heartbeat_comes_back() {
    let mut rig = Rig::down(with_session()).await;
    let session = rig.backend.tuning().leases.session().unwrap().clone();
    // The answers take so long that the session is over when they come.
    session.answered(clock::now().before(TIMEOUT), TIMEOUT);
    assert!(session.has_begun() && session.is_over(clock::now()));
    rig.events.heartbeat().answered(TIMEOUT);
    rig.script.is_quiet().await;
    assert_eq!(rig.told(), [Told::SessionLost]);
    assert!(session.is_over(clock::now()), "it counts from the next heartbeat on");
}

/// No task keeps the former session alive, and the heartbeats of the next one do not count for its locks.
#[tokio::test(start_paused = true)]
async fn a_session_is_lost_when_the_store_panics() {
    let mut rig = Rig::down(with_session()).await;
    let session = rig.backend.tuning().leases.session().unwrap().clone();
    rig.work_begins_again().await;
    assert_eq!(rig.told(), [], "no session had begun");
    rig.events.up(EarlierCommands::Ended);
    rig.events.heartbeat().answered(TIMEOUT);
    rig.script.is_quiet().await;
    rig.told();
    rig.work_begins_again().await;
    assert_eq!(rig.told(), [Told::SessionLost]);
    assert!(session.is_over(clock::now()));
    rig.events.heartbeat().answered(TIMEOUT);
    rig.script.is_quiet().await;
    assert!(!session.is_over(clock::now()), "the next session");
}
