//! Reports that arrive on a separate connection, which may be lost while commands can be sent.

use super::*;
use distlock_store::{EarlierCommands, LeaseRule, Notifications};

const UP: Told = Told::Up { earlier: EarlierCommands::Ended, pushes: Notifications::On };

#[tokio::test(start_paused = true)]
async fn waiters_poll_while_nothing_is_reported() {
    let rig = Rig::up(queueing()).await;
    for said in [Notifications::Off, Notifications::On] {
        rig.events.notifications(said);
        // Said again it means nothing.
        rig.events.notifications(said);
        rig.until_told().await;
        tokio::task::yield_now().await;
        assert_eq!(rig.told(), [Told::Notifications(said)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_reports_until_the_store_says_otherwise() {
    let rig = Rig::up(queueing()).await;
    rig.events.notifications(Notifications::Off);
    rig.events.down(StoreError::unknown("cut"));
    // This report has no effect, because commands cannot be sent either.
    rig.events.notifications(Notifications::Off);
    rig.events.up(EarlierCommands::Ended);
    rig.events.session_lost();
    rig.events.released("p:k");
    while rig.record.len() < 4 {
        tokio::task::yield_now().await;
    }
    let free = Told::Notice(PushHint::Free { key: "k".into() });
    assert_eq!(rig.told(), [Told::Notifications(Notifications::Off), Told::Down, UP, free]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_reports_nothing_has_nothing_to_miss() {
    let rig = Rig::up(Abilities::default()).await;
    rig.events.notifications(Notifications::Off);
    rig.events.notifications(Notifications::On);
    rig.events.down(StoreError::unknown("cut"));
    rig.until_told().await;
    assert_eq!(rig.told(), [Told::Down]);
}

#[tokio::test(start_paused = true)]
async fn what_is_said_before_the_first_heartbeat_counts_with_it() {
    let rig = Rig::down(queueing().lease(LeaseRule::Session)).await;
    rig.events.up(EarlierCommands::Ended);
    rig.events.notifications(Notifications::Off);
    rig.events.heartbeat().answered(TTL);
    rig.until_told().await;
    assert_eq!(rig.told(), [Told::Up { earlier: EarlierCommands::Ended, pushes: Notifications::Off }]);
}
