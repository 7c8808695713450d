//! Several keys by one command, lists, and examinations.

use std::collections::BTreeMap;

use super::ensure;
use crate::testing::BOUND;
use crate::testing::contract::Broken;
use crate::testing::contract::place::{LONG, Place, long};
use distlock_store::{Acquire, AcquireReply, List, LockStore, Renew, RenewReply};

/// Independent of the declared abilities: a store without this one is asked for one key after the other.
pub(crate) async fn a_command_for_several_keys_answers_for_each(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let count = 4_usize;
    let acquires = one.abilities.acquires_together.min(count);
    if acquires > 1 {
        let busy = acquires - 1;
        let blocker = other.owner();
        other.takes(&long(&place.key(format!("a{busy}")), &blocker)).await?;
        let request = |at: usize| long(&place.key(format!("a{at}")), &one.owner());
        let requests: Vec<Acquire> = (0..acquires).map(request).collect();
        let replies = one.asked(async || one.store.acquire_all(&requests).await).await?;
        let is_right = replies.len() == acquires
            && replies.iter().take(busy).all(|reply| matches!(reply, AcquireReply::Acquired { .. }))
            && matches!(replies.last(), Some(AcquireReply::Busy(_)));
        ensure!(is_right, "the last of {acquires} keys is busy, and an acquire of all says {replies:?}");
        other.gives_back(&place.key(format!("a{busy}")), &blocker).await?;
        for request in requests.iter().take(busy) {
            one.gives_back(&request.key, &request.owner).await?;
        }
        // Behind the first that is busy none is tried.
        let blocker = other.owner();
        other.takes(&long(&place.key("a0"), &blocker)).await?;
        let replies = one.asked(async || one.store.acquire_all(&requests).await).await?;
        ensure!(
            replies.len() == 1,
            "the first of {acquires} keys is busy, and an acquire of all says {replies:?}"
        );
        for at in 1..acquires {
            let holders = other.holders(&place.key(format!("a{at}"))).await?;
            ensure!(holders.is_empty(), "a key behind a busy one was acquired by {holders:?}");
        }
    }
    let renews = one.abilities.renews_together.min(count);
    if renews > 1 {
        let owners: Vec<_> = (0..renews).map(|_| one.owner()).collect();
        // All but the first.
        for (at, owner) in owners.iter().enumerate().skip(1) {
            one.takes(&long(&place.key(format!("r{at}")), owner)).await?;
        }
        let requests: Vec<Renew> = owners
            .iter()
            .enumerate()
            .map(|(at, owner)| Renew::new(place.key(format!("r{at}")), owner, LONG))
            .collect();
        let replies = one.asked(async || one.store.renew_all(&requests).await).await?;
        let mut right = vec![RenewReply::Renewed; renews];
        right[0] = RenewReply::NotHeld;
        ensure!(
            replies == right,
            "all but the first of {renews} keys are held, and a renewal of all says {replies:?}"
        );
        let holders = one.holders(&place.key("r0")).await?;
        ensure!(holders.is_empty(), "a renewal of several keys has created a lock of {holders:?}");
    }
    Ok(())
}

pub(crate) async fn a_list_shows_what_is_held_on_one_of_its_pages(place: Place) -> Result<(), Broken> {
    let one = place.process_apart().await?;
    if !one.abilities.lists {
        return Ok(());
    }
    let mut held = BTreeMap::new();
    for at in 0..5 {
        let (key, owner) = (place.key(at), one.owner());
        one.takes(&long(&key, &owner)).await?;
        held.insert(key.to_string(), owner.to_string());
    }
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let request = List::new(place.beginning(), after.clone(), 2);
        let page = one.asked(async || one.store.list(&request).await).await?;
        let last = page.locks.last().map(|(key, _)| key.clone());
        for (key, lock) in page.locks {
            let holder = lock.holders.first().map(|(holder, _)| holder.clone()).unwrap_or_default();
            let before = found.insert(key.clone(), holder);
            ensure!(before.is_none(), "`{key}` is on two pages of a list");
        }
        match last.filter(|_| page.more) {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    ensure!(found == held, "these are held: {held:?}; and a list shows {found:?}");
    Ok(())
}

pub(crate) async fn an_examination_answers_and_changes_nothing(place: Place) -> Result<(), Broken> {
    let one = place.process_apart().await?;
    let (key, owner) = (place.key("held"), one.owner());
    one.takes(&long(&key, &owner)).await?;
    let examined = tokio::time::timeout(BOUND, one.asked(async || one.store.diagnose().await)).await;
    drop(
        examined
            .map_err(|_| Broken::because(format!("an examination has not answered within {BOUND:?}")))??,
    );
    let holders = one.holders(&key).await?;
    ensure!(
        holders == [owner.to_string()],
        "{owner} has `{key}`, and after an examination it is {holders:?}"
    );
    Ok(())
}
