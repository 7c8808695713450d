//! Commands whose caller no longer waits, and connections that end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::ensure;
use crate::testing::contract::place::{Place, long};
use crate::testing::contract::process::until;
use crate::testing::contract::{Broken, Process};
use distlock_store::{
    Acquire, AcquireReply, LATE_COMMANDS, LeaseRule, LockStore, Owner, Release, StoreError,
};

/// Longer than a command that was held back needs when it is let go.
const SETTLED: Duration = Duration::from_millis(500);

/// A command that is in progress, as long as its future has not ended.
type UnderWay = JoinHandle<Result<AcquireReply, StoreError>>;

fn send(process: &Process, request: Acquire) -> UnderWay {
    let store = process.store.clone();
    tokio::spawn(async move { store.acquire(&request).await })
}

/// Awaits its end, or stops waiting, as the manager does. Then lets the time pass in which it may still be executed.
async fn is_given_up(command: &mut UnderWay) -> Result<(), Broken> {
    if let Ok(ended) = timeout(LATE_COMMANDS, command).await {
        let is_answered = matches!(ended, Ok(Ok(_)));
        ensure!(!is_answered, "the fixture's link passes commands while it is held or cut");
    }
    tokio::time::sleep(LATE_COMMANDS).await;
    Ok(())
}

/// The link works again: the delayed commands arrive, and a faulty store repeats them.
async fn answers_again(process: &Process, key: &Arc<str>) -> Result<(), Broken> {
    let answers = async || process.store.inspect(key).await.is_ok();
    until("the store answers when its link is mended", answers).await
}

async fn is_never_held(other: &Process, key: &Arc<str>, owner: &Owner) -> Result<(), Broken> {
    let end = tokio::time::Instant::now() + SETTLED;
    while tokio::time::Instant::now() < end {
        let is_held = other.is_held_by(key, owner).await?;
        ensure!(
            !is_held,
            "an acquire of `{key}` was cancelled, and was executed more than {LATE_COMMANDS:?} later"
        );
        tokio::time::sleep(SETTLED / 50).await;
    }
    other.takes(&long(key, &other.owner())).await.map(drop)
}

pub(crate) async fn a_command_that_was_given_up_is_not_carried_out_after_5_s(
    place: Place,
) -> Result<(), Broken> {
    let (one, other) = (place.process().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    place.hold().await;
    let mut command = send(&one, long(&key, &owner));
    is_given_up(&mut command).await?;
    place.mend().await;
    answers_again(&one, &key).await?;
    if one.abilities.lease == LeaseRule::Session {
        // The delayed command may arrive before the connection is replaced. Then the manager repeats the release as
        // long as the session lives.
        one.release(&Release::new(key.clone(), &owner)).await?;
    }
    is_never_held(&other, &key, &owner).await
}

pub(crate) async fn nothing_is_repeated_after_its_future_has_ended(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    // The command is in flight when the connection ends, and never arrives.
    place.hold().await;
    let mut command = send(&one, long(&key, &owner));
    tokio::time::sleep(Duration::from_millis(50)).await;
    place.cut().await;
    is_given_up(&mut command).await?;
    place.mend().await;
    answers_again(&one, &key).await?;
    is_never_held(&other, &key, &owner).await
}

pub(crate) async fn run_does_not_return_when_a_connection_ends(place: Place) -> Result<(), Broken> {
    let (one, key) = (place.process().await?, place.key(0));
    place.cut().await;
    let notices = async || one.run_has_returned() || one.store.inspect(&key).await.is_err();
    until("the store notices that its link is cut", notices).await?;
    place.mend().await;
    let goes_on = async || one.run_has_returned() || one.store.inspect(&key).await.is_ok();
    until("the store answers when its link is mended", goes_on).await?;
    ensure!(!one.run_has_returned(), "`run` has returned because the link was cut");
    Ok(())
}
