//! The holder of the lock, and the replies to an acquire.

use std::sync::Arc;

use super::ensure;
use super::lease::{ends_not_before, lasts_for_the_longer, still_lasts};
use crate::backend::Failure;
use crate::testing::BOUND;
use crate::testing::contract::place::{LONG, Place, long};
use crate::testing::contract::process::{PAUSE, until};
use crate::testing::contract::{Broken, Process};
use distlock_store::clock;
use distlock_store::{
    Acquire, AcquireReply, LockStore, Owner, Release, ReleaseReply, Renew, RenewReply, Replace, ReplaceReply,
};

/// This many processes ask at once, ..
const CROWD: usize = 4;
/// .. so often.
const ROUNDS: usize = 30;

pub(crate) async fn of_several_who_ask_at_once_one_gets_the_lock(place: Place) -> Result<(), Broken> {
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(place.process_apart().await?);
    }
    let key = place.key(0);
    let (mut rounds, mut free_since) = (0, clock::now());
    // A round in which each was in the way of the others is none.
    while rounds < ROUNDS {
        let mut asking = Vec::new();
        for process in &crowd {
            let (store, request) = (process.store.clone(), long(&key, &process.owner()));
            let owner = request.owner.clone();
            let asked = tokio::spawn(async move { store.acquire(&request).await });
            asking.push((process, owner, asked));
        }
        let mut got = Vec::new();
        for (process, owner, asked) in asking {
            let answered = asked.await.map_err(|error| Broken::because(error.to_string()))?;
            match answered {
                Ok(reply) if reply.is_acquired() => got.push((process, owner)),
                Ok(_) => {}
                Err(error) if error.kind == Failure::Later => {}
                Err(error) => return Err(Broken::because(format!("the store answers an error: {error}"))),
            }
        }
        ensure!(got.len() <= 1, "{} of {CROWD} concurrent requests have acquired `{key}`", got.len());
        if got.is_empty() {
            let waited = clock::now().duration_since(free_since);
            ensure!(waited < BOUND, "`{key}` is free, and no request has acquired it for {waited:?}");
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        for (process, owner) in got {
            process.gives_back(&key, &owner).await?;
            (rounds, free_since) = (rounds + 1, clock::now());
        }
    }
    Ok(())
}

pub(crate) async fn a_busy_key_names_its_holder_and_stays_with_it(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    ensure!(one.holders(&key).await?.is_empty(), "`{key}` is free, and inspect shows a holder");
    one.takes(&long(&key, &owner)).await?;
    let named = other.meets(&long(&key, &other.owner())).await?;
    let is_right = named.as_deref().is_none_or(|holder| holder == owner.as_str());
    ensure!(is_right, "{owner} has `{key}`, and an acquire by another owner names {named:?}");
    let holders = other.holders(&key).await?;
    ensure!(holders == [owner.as_str()], "{owner} has `{key}`, and inspect shows {holders:?}");
    one.gives_back(&key, &owner).await
}

pub(crate) async fn a_repeated_acquire_is_already_held(place: Place) -> Result<(), Broken> {
    let one = place.process_apart().await?;
    let (key, owner) = (place.key(0), one.owner());
    one.takes(&long(&key, &owner)).await?;
    for _ in 0..2 {
        let reply = one.acquire(&long(&key, &owner)).await?;
        let is_right = matches!(reply, AcquireReply::AlreadyHeld { .. });
        ensure!(is_right, "{owner} has `{key}`, and its next acquire says {reply:?}");
    }
    one.gives_back(&key, &owner).await
}

pub(crate) async fn a_holder_that_is_named_is_replaced(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    if !one.abilities.replaces {
        return Ok(());
    }
    let (key, stranger) = (place.key(0), other.owner());
    let (first, second, third) = (one.owner(), other.owner(), one.owner());
    let fences = u32::from(one.abilities.fencing.is_some());
    let replace = async |process: &Process, holder: &Owner, owner: &Owner| {
        let mut request = Replace::new(key.clone(), holder, owner, LONG);
        request.fences = fences;
        process.replace(&request).await
    };
    let reply = replace(&other, &first, &second).await?;
    ensure!(reply == ReplaceReply::NotHeld, "`{key}` is free, and replacing {first} says {reply:?}");
    let mut request = long(&key, &first);
    request.fences = fences;
    let (AcquireReply::Acquired { fence } | AcquireReply::AlreadyHeld { fence }) =
        one.acquire(&request).await?
    else {
        return Err(Broken::because(format!("`{key}` is free, and it is not acquired")));
    };
    let renewed =
        one.asked(async || one.store.hand_over(&Renew::new(key.clone(), &first, LONG)).await).await?;
    ensure!(renewed == RenewReply::Renewed, "{first} has `{key}`, and handing it over says {renewed:?}");
    one.store.close().await;
    drop(one);
    let one = place.process_apart().await?;
    let mut last = fence;
    for (holder, owner) in [(&first, &second), (&second, &third)] {
        let reply = replace(&other, &third, &stranger).await?;
        ensure!(reply == ReplaceReply::NotHeld, "{holder} has `{key}`, and replacing {third} says {reply:?}");
        for is_repeated in [false, true] {
            let reply = replace(&other, holder, owner).await?;
            let fence = match reply {
                ReplaceReply::Replaced { fence } if !is_repeated => fence,
                ReplaceReply::AlreadyHeld { fence } if is_repeated => fence,
                _ => {
                    return Err(Broken::because(format!(
                        "replacing {holder}, repeated: {is_repeated}, says {reply:?}"
                    )));
                }
            };
            ensure!(fences == 0 || fence > last, "the fencing token {fence:?} comes after {last:?}");
            last = fence;
        }
        let holders = one.holders(&key).await?;
        ensure!(holders == [owner.as_str()], "{owner} has `{key}`, and inspect shows {holders:?}");
    }
    one.gives_back(&key, &third).await
}

pub(crate) async fn a_replaced_lease_lasts_for_its_ttl_and_never_less(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    if !one.abilities.replaces {
        return Ok(());
    }
    // On a busy machine a short lease may be over before it is replaced.
    let mut short = place.short();
    loop {
        let key = place.key(format!("replaced.{}", short.as_millis()));
        let (first, second) = (one.owner(), other.owner());
        one.takes(&Acquire::new(key.clone(), &first, short)).await?;
        match other.replace(&Replace::new(key.clone(), &first, &second, LONG)).await? {
            ReplaceReply::Replaced { .. } => {
                still_lasts(&one, &key, &second, short).await?;
                break;
            }
            reply => ensure!(reply == ReplaceReply::NotHeld, "replacing {first} by {second} says {reply:?}"),
        }
        short *= 2;
        ensure!(short < LONG, "{first} has `{key}`, and could not be replaced");
    }
    // The repeated one.
    let stranger = other.owner();
    lasts_for_the_longer(&place, async |one, request| {
        let Acquire { key, owner, ttl, .. } = request;
        let reply = one.replace(&Replace::new(key, &stranger, &owner, ttl)).await?;
        Ok(matches!(reply, ReplaceReply::AlreadyHeld { .. }))
    })
    .await
}

pub(crate) async fn a_repeated_acquire_makes_the_lease_last_for_its_ttl_and_never_less(
    place: Place,
) -> Result<(), Broken> {
    lasts_for_the_longer(&place, async |one, request| {
        let reply = one.acquire(&request).await?;
        Ok(matches!(reply, AcquireReply::AlreadyHeld { .. }))
    })
    .await
}

pub(crate) async fn who_has_lost_the_lock_acquires_it_anew(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    one.takes(&long(&key, &owner)).await?;
    ensure!(other.force_release(&key).await?, "`{key}` is held, and its forced release says that it is not");
    let was_held = other.force_release(&key).await?;
    ensure!(!was_held, "`{key}` was released by force, and a second forced release says that it is held");
    // A place that has ended is known to all when its end was reported.
    until("the holder is gone", async || one.holders(&key).await.is_ok_and(|found| found.is_empty())).await?;
    one.takes(&long(&key, &owner)).await?;
    one.gives_back(&key, &owner).await
}

pub(crate) async fn a_release_frees_the_key_before_it_is_answered(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let key = place.key(0);
    for _ in 0..10 {
        for (this, that) in [(&one, &other), (&other, &one)] {
            let owner = this.owner();
            this.takes(&long(&key, &owner)).await?;
            that.meets(&long(&key, &that.owner())).await?;
            this.gives_back(&key, &owner).await?;
            let again = this.release(&Release::new(key.clone(), &owner)).await?;
            ensure!(
                again == ReleaseReply::NotHeld,
                "`{key}` was released, and a second release says {again:?}"
            );
        }
    }
    Ok(())
}

pub(crate) async fn a_release_of_somebody_else_frees_nothing(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    one.takes(&long(&key, &owner)).await?;
    for stranger in [other.owner(), one.owner()] {
        let reply = other.release(&Release::new(key.clone(), &stranger)).await?;
        ensure!(
            reply == ReleaseReply::NotHeld,
            "{owner} has `{key}`, and a release by {stranger} says {reply:?}"
        );
        ensure!(one.is_held_by(&key, &owner).await?, "a release by {stranger} has freed `{key}` of {owner}");
    }
    one.gives_back(&key, &owner).await
}

/// `force_release_from` releases the lock of the holder that `inspect` has shown.
pub(crate) async fn a_holder_of_another_process_is_released(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    one.takes(&long(&key, &owner)).await?;
    other.gives_back(&key, &owner).await?;
    // A place that has ended is known to all when its end was reported.
    until("the holder is gone", async || one.holders(&key).await.is_ok_and(|found| found.is_empty())).await?;
    let next = other.owner();
    other.takes(&long(&key, &next)).await?;
    other.gives_back(&key, &next).await
}

pub(crate) async fn a_key_stays_taken_for_as_long_as_its_release_said(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let short = place.short();
    let (key, owner) = (place.key("long"), one.owner());
    let kept = |key: &Arc<str>, owner: &_, time| {
        let mut request = Release::new(key.clone(), owner);
        request.keep = Some(time);
        request
    };
    one.takes(&long(&key, &owner)).await?;
    one.release(&kept(&key, &owner, LONG)).await?;
    other.meets(&long(&key, &other.owner())).await?;
    let renewed = one.renew(&Renew::new(key.clone(), &owner, LONG)).await?;
    let is_over = renewed == RenewReply::NotHeld;
    ensure!(is_over, "`{key}` was released, and a renewal says {renewed:?}");
    ensure!(other.force_release(&key).await?, "`{key}` is kept, and a forced release says that it is free");
    other.takes(&long(&key, &other.owner())).await?;

    let (key, owner) = (place.key("short"), one.owner());
    one.takes(&long(&key, &owner)).await?;
    let released = clock::now();
    one.release(&kept(&key, &owner, short)).await?;
    ends_not_before(&other, &key, released, short).await
}
