//! Several keys by one command, lists, texts, and examinations.

use std::collections::BTreeMap;

use super::ensure;
use crate::testing::BOUND;
use crate::testing::contract::place::{LONG, Place, long};
use crate::testing::contract::{Broken, Process};
use distlock_store::{
    Acquire, AcquireReply, LeaseRule, List, LockKind, LockStore, Owner, Publish, Renew, RenewReply,
};

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
        // In another order than that of their keys. The one whose key is the first is not held. One may be shared.
        let mut requests = Vec::new();
        for at in (0..renews).rev() {
            let ttl = if at % 2 == 0 { LONG } else { LONG / 2 };
            let mut request = Renew::new(place.key(format!("r{at}")), &one.owner(), ttl);
            if at == 1 && one.abilities.shared {
                request.kind = LockKind::Shared;
            }
            if at > 0 {
                let mut acquire = Acquire::new(request.key.clone(), &request.owner, LONG / 4);
                acquire.kind = request.kind;
                one.takes(&acquire).await?;
            }
            requests.push(request);
        }
        let replies = one.asked(async || one.store.renew_all(&requests).await).await?;
        let mut right = vec![RenewReply::Renewed; renews];
        right[renews - 1] = RenewReply::NotHeld;
        ensure!(
            replies == right,
            "all but the last of {renews} keys are held, and a renewal of all says {replies:?}"
        );
        for Renew { key, owner, ttl, .. } in requests.iter().take(renews - 1) {
            let left = one.remaining(key, owner).await?;
            let is_right =
                one.abilities.lease == LeaseRule::Session || left.is_none_or(|left| left > *ttl / 2);
            ensure!(is_right, "`{key}` was renewed for {ttl:?} with others, and {left:?} are left");
        }
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
    // Keys without this beginning, before and behind the others.
    for outside in ["-", "x"] {
        let key = place.beginning().trim_end_matches('.').to_owned() + outside;
        one.takes(&long(&key.into(), &one.owner())).await?;
    }
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

pub(crate) async fn a_text_is_shown_for_the_lease_of_its_owner_and_no_other(
    place: Place,
) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    if !one.abilities.publishes {
        return Ok(());
    }
    let (key, first, second) = (place.key(0), one.owner(), other.owner());
    let publish = async |process: &Process, owner: &Owner, text: &str| {
        let request = Publish::new(key.clone(), owner, text);
        process.asked(async || process.store.publish(&request).await).await
    };
    let unpublish = async |process: &Process, owner: &Owner| {
        let request = Publish::new(key.clone(), owner, "");
        process.asked(async || process.store.unpublish(&request).await).await
    };
    let shows = async |when: &str, right: &str| {
        let details = one.inspect(&key).await?.map(|lock| lock.details).unwrap_or_default();
        let text: String = details.into_iter().filter_map(|(_, details)| details.value).collect();
        ensure!(text == right, "{when}, and inspect shows the text {text:?} instead of {right:?}");
        Ok(())
    };
    one.takes(&long(&key, &first)).await?;
    publish(&one, &first, "one").await?;
    shows("the holder has published", "one").await?;
    other.meets(&long(&key, &second)).await?;
    shows("another owner has asked", "one").await?;
    one.gives_back(&key, &first).await?;
    other.takes(&long(&key, &second)).await?;
    shows("the next holder has published nothing", "").await?;
    publish(&one, &first, "late").await?;
    shows("a former holder has published", "").await?;
    publish(&other, &second, "two").await?;
    unpublish(&one, &first).await?;
    shows("a former holder has removed its text", "two").await?;
    unpublish(&other, &second).await?;
    shows("the holder has removed its text", "").await?;
    other.gives_back(&key, &second).await
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
