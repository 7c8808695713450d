//! Locks that are handed over by a ticket, and taken over in another process.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::testing::eventually;
use crate::{ForcedRelease, Guard, LockError, LockManager, LostReason, Ticket};

/// Much longer than any test runs: no lease expires.
const LONG: Duration = Duration::from_secs(3_600);
/// Short enough to wait for, for every store: some count seconds.
const SHORT: Duration = Duration::from_secs(3);

async fn handed_over(manager: &LockManager) -> Ticket {
    manager.lock("k").ttl(LONG).acquire().await.unwrap().hand_over().await.unwrap()
}

/// The ticket is passed as text, as between processes.
async fn take_over(manager: &LockManager, ticket: &Ticket) -> Result<Guard, LockError> {
    manager.take_over(&ticket.to_string().parse()?).acquire().await
}

fn is_worthless(refused: Result<Guard, LockError>) {
    assert!(matches!(refused, Err(LockError::InvalidTicket { .. })), "{refused:?}");
}

pub async fn a_lock_that_is_handed_over_is_never_free_in_between(place: Place) {
    let (one, other, third) = (place.manager().await, place.manager().await, place.manager().await);
    one.check_hand_over().unwrap();
    let mut guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(third.lock("k").wait(LONG).acquire());
    place.until_waiting(&one, &third, "k", 1).await;
    for manager in [&other, &one, &other, &one] {
        let ticket = guard.hand_over().await.unwrap();
        assert!(third.lock("k").try_acquire().await.unwrap().is_none());
        guard = take_over(manager, &ticket).await.unwrap();
        assert!(third.lock("k").try_acquire().await.unwrap().is_none());
        assert!(!waiter.is_finished());
    }
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn who_hands_over_is_told_and_may_end(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let lost = guard.lost();
    let ticket = guard.hand_over().await.unwrap();
    let told = lost.await;
    assert!(matches!(told, LockError::Lost { reason: LostReason::Released, .. }), "{told:?}");
    if !place.is_one_process() {
        let report = one.shutdown(Duration::ZERO).await;
        assert_eq!((report.held, report.unconfirmed), (0, 0));
        drop(one);
    }
    let guard = take_over(&other, &ticket).await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_ticket_is_good_for_one_take_over(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let ticket = handed_over(&one).await;
    let guard = take_over(&other, &ticket).await.unwrap();
    for manager in [&one, &other] {
        is_worthless(take_over(manager, &ticket).await);
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    for manager in [&one, &other] {
        is_worthless(take_over(manager, &ticket).await);
    }
    place.is_clean("k").await;
}

pub async fn a_ticket_ends_with_its_lease(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let ticket = one.lock("k").ttl(SHORT).acquire().await.unwrap().hand_over().await.unwrap();
    eventually("the lease ends", async || other.inspect("k").await.unwrap().is_none()).await;
    is_worthless(take_over(&other, &ticket).await);
    let next = other.lock("k").acquire().await.unwrap();
    is_worthless(take_over(&one, &ticket).await);
    next.check().unwrap();
    next.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn who_waits_gets_the_lock_if_nobody_takes_it_over(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").ttl(SHORT).acquire().await.unwrap();
    let waiters = [&one, &other].map(|manager| {
        let request = manager.lock("k").wait(LONG);
        tokio::spawn(async move { request.acquire().await?.release().await })
    });
    place.until_waiting(&other, &one, "k", 1).await;
    drop(guard.hand_over().await.unwrap());
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    place.is_clean("k").await;
}

pub async fn who_takes_over_holds_it_like_any_other(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let ticket = handed_over(&one).await;
    let guard = other.take_over(&ticket).ttl(SHORT * 2).acquire().await.unwrap();
    assert_eq!(one.inspect("k").await.unwrap().unwrap().holder, guard.owner());
    let mut remaining = guard.remaining();
    eventually("it is renewed", async || {
        let before = std::mem::replace(&mut remaining, guard.remaining());
        remaining > before
    })
    .await;
    // The store's data decides: neither manager knows what the other one has taken over.
    let released = one.force_release_from("k", &*ticket.owner).await.unwrap();
    assert!(matches!(released, ForcedRelease::HeldByAnother { .. }), "{released:?}");
    guard.check().unwrap();
    let released = one.force_release_from("k", guard.owner()).await.unwrap();
    assert!(matches!(released, ForcedRelease::Released { .. }), "{released:?}");
    assert!(guard.lost().await.is_lost());
    drop(guard);
    let ticket = handed_over(&one).await;
    let is_held = other.take_over(&ticket).run(async |held| held.is_held()).await.unwrap();
    assert!(is_held);
    place.is_clean("k").await;
}

pub async fn what_cannot_be_handed_over_is_refused_and_released(place: Place) {
    let manager = place.manager().await;
    let several = manager.lock_all(["k", "l"]).acquire().await.unwrap();
    let refused = several.hand_over().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
    place.is_clean("k").await;
    place.is_clean("l").await;
    let other = place.builder().key_prefix("elsewhere:").connect().await.unwrap();
    let ticket = handed_over(&manager).await;
    is_worthless(take_over(&other, &ticket).await);
    take_over(&manager, &ticket).await.unwrap().release().await.unwrap();
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    manager.force_release("k").await.unwrap();
    let refused = guard.hand_over().await;
    assert!(refused.as_ref().is_err_and(LockError::is_lost), "{refused:?}");
    place.is_clean("k").await;
}

pub async fn tokens_rise_from_one_holder_to_the_next_by_tickets(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let mut guard = one.lock("k").fenced().ttl(LONG).acquire().await.unwrap();
    for manager in [&other, &other, &one] {
        let before = guard.fencing_token().unwrap();
        let ticket = guard.hand_over().await.unwrap();
        assert_eq!(ticket.fencing_token(), Some(before));
        guard = take_over(manager, &ticket).await.unwrap();
        assert!(guard.fencing_token().unwrap() > before);
    }
    let last = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = one.lock("k").fenced().acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > last);
    next.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_take_over_may_be_cut_off_anywhere(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    for yields in [0, 1, 3, 10, 30] {
        let ticket = handed_over(&one).await;
        let taking = tokio::spawn({
            let request = other.take_over(&ticket);
            async move { request.acquire().await }
        });
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        place.cut().await;
        place.mend().await;
        // It was applied or not. If it was, and no caller learnt it, the lock is released, and the ticket is used.
        let mut taken = taking.await.unwrap();
        while let Err(LockError::Unavailable { .. }) = taken {
            taken = take_over(&other, &ticket).await;
        }
        match taken {
            Ok(guard) => guard.check().unwrap(),
            refused => is_worthless(refused),
        }
        place.is_clean("k").await;
    }
}
