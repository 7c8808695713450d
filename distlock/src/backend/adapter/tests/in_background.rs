//! Sections that do not wait for the reply to their release.

use super::hazards::manager;
use super::*;
use crate::driver::MOST_IN_BACKGROUND;
use crate::{LockManager, Release as Policy};

/// Runs a section, which the store grants. The release has been started when this returns.
async fn section(manager: &LockManager, script: &mut Script, key: String) -> (Release, Answer<ReleaseReply>) {
    let section = manager.lock(key).release(Policy::Background);
    let section = tokio::spawn(async move { section.run(async |held| held.check()).await });
    script.next_acquire().await.1.send(acquired()).unwrap();
    let release = script.next_release().await;
    section.await.unwrap().unwrap().unwrap();
    release
}

#[tokio::test]
async fn a_section_returns_before_the_reply_and_a_confirmed_one_does_not() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let (_, answer) = section(&manager, &mut script, "k".into()).await;
    assert_eq!(manager.core().unconfirmed(), 1, "the release that has no reply");
    answer.send(Ok(ReleaseReply::Released)).unwrap();

    let confirmed = tokio::spawn(manager.lock("other").run(async |held| held.check()));
    script.next_acquire().await.1.send(acquired()).unwrap();
    let (_, answer) = script.next_release().await;
    script.is_quiet().await;
    assert!(!confirmed.is_finished());
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    confirmed.await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_release_that_fails_is_repeated_and_a_shutdown_waits_for_it() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let (first, answer) = section(&manager, &mut script, "k".into()).await;
    let closing = manager.clone();
    let closing = tokio::spawn(async move { closing.shutdown(TTL).await });
    script.is_quiet().await;
    assert!(!closing.is_finished(), "a release is on its way");
    answer.send(Err(StoreError::later("not now"))).unwrap();
    let (again, answer) = script.next_release().await;
    assert_eq!(again.owner, first.owner);
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    let report = closing.await.unwrap();
    assert_eq!((report.lost, report.ignored, report.unconfirmed), (0, 0, 0), "{report:?}");
}

#[tokio::test]
async fn so_many_are_on_their_way_and_the_next_section_waits() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let mut on_the_way = Vec::new();
    for key in 0..MOST_IN_BACKGROUND {
        on_the_way.push(section(&manager, &mut script, format!("k{key}")).await.1);
    }
    let request = manager.lock("one more").release(Policy::Background);
    let one_more = tokio::spawn(async move { request.run(async |held| held.check()).await });
    script.next_acquire().await.1.send(acquired()).unwrap();
    let (_, answer) = script.next_release().await;
    script.is_quiet().await;
    assert!(!one_more.is_finished(), "it waits for its own reply");
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    one_more.await.unwrap().unwrap().unwrap();
    for answer in on_the_way {
        answer.send(Ok(ReleaseReply::Released)).unwrap();
    }
    let report = manager.shutdown(TTL).await;
    assert_eq!((report.ignored, report.unconfirmed), (0, 0), "there is room again: {report:?}");
}

#[tokio::test]
async fn a_section_has_returned_its_value_when_the_reply_says_that_the_lock_was_lost() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let (_, answer) = section(&manager, &mut script, "k".into()).await;
    answer.send(Ok(ReleaseReply::NotHeld)).unwrap();
    let report = manager.shutdown(TTL).await;
    assert_eq!((report.lost, report.ignored, report.unconfirmed), (0, 0, 0), "{report:?}");
}
