//! The fencing tokens of a key increase with every token.

use std::sync::Arc;

use super::ensure;
use crate::testing::contract::place::{Place, long};
use crate::testing::contract::{Broken, Process};
use distlock_store::clock;
use distlock_store::{Acquire, AcquireReply, Fencing, Owner};

/// Above this a number is not exact in every language.
const LIMIT: u64 = 1 << 53;

/// The last number that was handed out.
struct Last(u64);

impl Last {
    fn rises(&mut self, when: &str, first: Option<u64>, count: u32) -> Result<(), Broken> {
        let Some(first) = first else {
            return Err(Broken::because(format!("{when}: no fencing token, although the request needs one")));
        };
        ensure!(first > self.0, "{when}: the fencing token {first} comes after {}", self.0);
        self.0 = first + u64::from(count) - 1;
        ensure!(self.0 < LIMIT, "{when}: a fencing token of {} is not below 2^53", self.0);
        Ok(())
    }
}

fn fenced(key: &Arc<str>, owner: &Owner, fences: u32) -> Acquire {
    let mut request = long(key, owner);
    request.fences = fences;
    request
}

async fn acquired(process: &Process, request: &Acquire) -> Result<Option<u64>, Broken> {
    match process.acquire(request).await? {
        AcquireReply::Acquired { fence } | AcquireReply::AlreadyHeld { fence } => Ok(fence),
        other => Err(Broken::because(format!(
            "no other owner has `{}`, and an acquire says {other:?}",
            request.key
        ))),
    }
}

pub(crate) async fn fencing_tokens_rise_with_every_one_that_is_handed_out(
    place: Place,
) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, mut last) = (place.key(0), Last(0));
    let together = if one.abilities.fencing == Some(Fencing::Blocks) { 3 } else { 1 };
    for process in [&one, &other, &one] {
        let owner = process.owner();
        for when in ["acquired", "acquired by its holder"] {
            let first = acquired(process, &fenced(&key, &owner, together)).await?;
            last.rises(when, first, together)?;
        }
        process.gives_back(&key, &owner).await?;
        // A lock that is not fenced uses no token, or does not disturb their order.
        let owner = process.owner();
        process.takes(&long(&key, &owner)).await?;
        process.gives_back(&key, &owner).await?;
    }
    Ok(())
}

pub(crate) async fn fencing_tokens_rise_over_an_expiry(place: Place) -> Result<(), Broken> {
    let (one, other) = (place.process_apart().await?, place.process_apart().await?);
    let (key, mut last) = (place.key(0), Last(0));
    let short = place.short();
    for _ in 0..2 {
        let asked = clock::now();
        let mut request = fenced(&key, &one.owner(), 1);
        request.ttl = short;
        last.rises("acquired", acquired(&one, &request).await?, 1)?;
        super::lease::ends_not_before(&other, &key, asked, short).await?;
    }
    last.rises("acquired after an expiry", acquired(&one, &fenced(&key, &one.owner(), 1)).await?, 1)
}

pub(crate) async fn fencing_tokens_rise_over_a_restart(place: Place) -> Result<(), Broken> {
    let (key, mut last) = (place.key(0), Last(0));
    let one = place.process().await?;
    for _ in 0..3 {
        let owner = one.owner();
        last.rises("acquired", acquired(&one, &fenced(&key, &owner, 1)).await?, 1)?;
        one.gives_back(&key, &owner).await?;
    }
    drop(one);
    place.restart().await;
    let next = place.process().await?;
    // A store may forget a release when it is killed, but no token.
    next.force_release(&key).await?;
    let owner = next.owner();
    last.rises("acquired after a restart", acquired(&next, &fenced(&key, &owner, 1)).await?, 1)
}
