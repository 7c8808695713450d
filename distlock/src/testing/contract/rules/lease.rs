//! How long a lease lasts.

use std::sync::Arc;
use std::time::Duration;

use super::ensure;
use crate::protocol::{drift, lease_end};
use crate::testing::BOUND;
use crate::testing::contract::place::{LONG, Place, long};
use crate::testing::contract::{Broken, Process};
use distlock_store::clock;
use distlock_store::engine::Time;
use distlock_store::{Acquire, AcquireReply, Owner, Release, Renew, RenewReply};

/// An attempt to measure may be disturbed so often.
const ATTEMPTS: usize = 50;
/// A measurement that took longer is disturbed.
const PRECISE: Duration = Duration::from_millis(5);

/// No other owner gets the key while a holder that has requested it at `asked` may rely on it; but another one gets
/// it in the end.
pub(super) async fn ends_not_before(
    other: &Process,
    key: &Arc<str>,
    asked: Time,
    ttl: Duration,
) -> Result<(), Broken> {
    let owner = other.owner();
    while !other.acquire(&long(key, &owner)).await?.is_acquired() {
        let waited = clock::now().duration_since(asked);
        // A coarse store may need a few more steps.
        ensure!(waited < ttl * 20 + BOUND, "a lease of {ttl:?} on `{key}` has not ended after {waited:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lasted = clock::now().duration_since(asked);
    ensure!(
        clock::now() >= lease_end(asked, ttl),
        "another owner has acquired `{key}` {lasted:?} after a request for it with a ttl of {ttl:?}"
    );
    other.gives_back(key, &owner).await
}

/// The time as other owners see it, and as `inspect` reports it.
pub(crate) async fn a_lease_lasts_for_its_ttl_from_the_call_and_then_ends(
    place: Place,
) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let short = place.short();
    let (key, owner) = (place.key("short"), one.owner());
    // The call comes a while after everything that was said before.
    tokio::time::sleep(short / 2).await;
    let asked = clock::now();
    one.takes(&Acquire::new(key.clone(), &owner, short)).await?;
    ends_not_before(&other, &key, asked, short).await?;

    // Not a whole number of seconds, if the store supports such ttls.
    let granularity = place.granularity();
    let ttl = Duration::from_millis(1_900);
    let ttl = if granularity < Duration::from_millis(100) { ttl } else { granularity * 3 };
    let mut precise = 0;
    for attempt in 0..ATTEMPTS {
        let (key, owner) = (place.key(attempt), one.owner());
        let asked = clock::now();
        one.takes(&Acquire::new(key.clone(), &owner, ttl)).await?;
        let Ok(Some(left)) = other.remaining(&key, &owner).await else { break };
        let now = clock::now();
        // The store rounds its report down.
        let latest_end = now.after(left).after(granularity);
        ensure!(
            latest_end >= lease_end(asked, ttl),
            "`{key}` was acquired with a ttl of {ttl:?}, and {:?} later only {left:?} are left",
            now.duration_since(asked)
        );
        one.gives_back(&key, &owner).await?;
        precise += usize::from(now.duration_since(asked) < PRECISE);
        if precise == 5 {
            break;
        }
    }
    Ok(())
}

/// The time that the store reports for a long lease is compared with our clock, until a difference of 1 % can be
/// distinguished from one of 2 %.
pub(crate) async fn the_clock_runs_at_most_1_percent_fast(place: Place) -> Result<(), Broken> {
    let one = place.process_apart().await?;
    let (key, owner) = (place.key(0), one.owner());
    one.takes(&long(&key, &owner)).await?;
    let first_asked = clock::now();
    let first = shown(&one, &key, &owner).await?;
    let first_took = clock::now().duration_since(first_asked);
    loop {
        let asked = clock::now();
        let left = shown(&one, &key, &owner).await?;
        let now = clock::now();
        let (passed, counted) = (now.duration_since(first_asked), first.saturating_sub(left));
        // Each of the two is rounded to milliseconds.
        let rounded = Duration::from_millis(2);
        ensure!(
            counted <= passed + drift(passed) + rounded,
            "the store's clock has counted {counted:?} while {passed:?} have passed"
        );
        let blur = first_took + now.duration_since(asked) + rounded * 2;
        if blur * 200 < passed {
            return one.gives_back(&key, &owner).await;
        }
        ensure!(passed < LONG / 2, "the store takes too long to answer to measure its clock");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn shown(one: &Process, key: &Arc<str>, owner: &Owner) -> Result<Duration, Broken> {
    let left = one.remaining(key, owner).await?;
    left.ok_or_else(|| Broken::because(format!("inspect does not say how long the lease of `{key}` lasts")))
}

pub(crate) async fn a_renewal_never_creates_a_lock(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, owner) = (place.key(0), one.owner());
    let renew = |owner: &_| Renew::new(key.clone(), owner, LONG);
    let refused = async |when: &str, process: &Process, request: Renew| {
        let reply = process.renew(&request).await?;
        ensure!(reply == RenewReply::NotHeld, "`{key}` is {when}, and a renewal says {reply:?}");
        Ok(())
    };
    refused("free", &one, renew(&owner)).await?;
    ensure!(one.holders(&key).await?.is_empty(), "a renewal has taken `{key}`, which was free");
    one.takes(&long(&key, &owner)).await?;
    let reply = one.renew(&renew(&owner)).await?;
    ensure!(reply == RenewReply::Renewed, "{owner} has `{key}`, and its renewal says {reply:?}");
    refused("another owner's", &other, renew(&other.owner())).await?;
    ensure!(one.is_held_by(&key, &owner).await?, "a renewal by another owner has taken `{key}` from {owner}");
    one.gives_back(&key, &owner).await?;
    refused("released", &one, renew(&owner)).await?;
    ensure!(one.holders(&key).await?.is_empty(), "a renewal has taken `{key}`, which was released");
    // Nor by way of what the store remembers of a lease that was taken away.
    one.takes(&long(&key, &owner)).await?;
    other.force_release(&key).await?;
    let next = other.owner();
    other.takes(&long(&key, &next)).await?;
    refused("held by another owner", &one, renew(&owner)).await?;
    other.gives_back(&key, &next).await
}

pub(crate) async fn a_renewal_makes_the_lease_last_for_its_ttl_and_never_less(
    place: Place,
) -> Result<(), Broken> {
    lasts_for_the_longer(&place, async |one, Acquire { key, owner, ttl, .. }| {
        Ok(one.renew(&Renew::new(key, &owner, ttl)).await? == RenewReply::Renewed)
    })
    .await
}

/// The longer one of two ttls counts. The second one is requested by `extend`, which returns whether the lease still
/// existed.
pub(super) async fn lasts_for_the_longer(
    place: &Place,
    extend: impl AsyncFn(&Process, Acquire) -> Result<bool, Broken>,
) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    // On a busy machine a short lease may be over before it is extended.
    let mut short = place.short();
    for (which, is_longer) in [("longer", true), ("shorter", false)] {
        loop {
            let (key, owner) = (place.key(format!("{which}.{}", short.as_millis())), one.owner());
            let (first, second) = if is_longer { (short, LONG) } else { (LONG, short) };
            one.takes(&Acquire::new(key.clone(), &owner, first)).await?;
            if extend(&one, Acquire::new(key.clone(), &owner, second)).await? {
                still_lasts(&other, &key, &owner, short).await?;
                break;
            }
            short *= 2;
            ensure!(is_longer && short < LONG, "{owner} has `{key}`, and could not make its lease last");
        }
    }
    Ok(())
}

/// A lease of [`LONG`] is there, and does not end with a short one.
pub(super) async fn still_lasts(
    other: &Process,
    key: &Arc<str>,
    owner: &Owner,
    short: Duration,
) -> Result<(), Broken> {
    match other.remaining(key, owner).await? {
        Some(left) => ensure!(left > LONG / 2, "the lease of `{key}` lasts {left:?}, not {LONG:?}"),
        None => {
            tokio::time::sleep(short * 2).await;
            let is_held = other.is_held_by(key, owner).await?;
            ensure!(is_held, "the lease of `{key}` ended after {short:?}, not {LONG:?}");
        }
    }
    Ok(())
}

/// A store without a clock counts a ttl from when it first saw the lease. Then it must tell leases apart.
pub(crate) async fn a_lease_lasts_for_its_ttl_after_another_was_released(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let short = place.short();
    for attempt in 0..ATTEMPTS {
        let (key, owner) = (place.key(attempt), one.owner());
        one.takes(&Acquire::new(key.clone(), &owner, short)).await?;
        let is_seen = matches!(other.acquire(&long(&key, &other.owner())).await?, AcquireReply::Busy(_));
        one.release(&Release::new(key.clone(), &owner)).await?;
        // On a slow machine, it was over before the other process looked.
        if is_seen {
            tokio::time::sleep(short / 2).await;
            let (owner, asked) = (one.owner(), clock::now());
            one.takes(&Acquire::new(key.clone(), &owner, short)).await?;
            return ends_not_before(&other, &key, asked, short).await;
        }
    }
    Ok(())
}

/// The lease of a process that has died, without a release.
pub(crate) async fn who_comes_after_an_expiry_acquires_the_lock(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let short = place.short();
    let (key, owner) = (place.key(0), one.owner());
    let asked = clock::now();
    let request = Acquire::new(key.clone(), &owner, short);
    one.takes(&request).await?;
    drop(one);
    ends_not_before(&other, &key, asked, short).await?;
    // Its former owner has lost it, and learns that when it acquires it again.
    let reply = other.acquire(&request).await?;
    let is_right = matches!(reply, AcquireReply::Acquired { .. });
    ensure!(is_right, "the lease of {owner} on `{key}` is over, and its next acquire says {reply:?}");
    Ok(())
}
