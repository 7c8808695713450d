//! Hand-offs to waiters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ensure;
use crate::protocol::drift;
use crate::testing::BOUND;
use crate::testing::contract::place::{LONG, Place, long};
use crate::testing::contract::process::Told;
use crate::testing::contract::{Broken, Process};
use distlock_store::clock;
use distlock_store::{
    Acquire, AcquireReply, NOTIFIED_WITHIN, Owner, Queue, Release, ReleaseReply, Replace, ReplaceReply,
};

/// The number of hand-overs. Most of them must be reported in time: a busy machine may be late with a few.
const HAND_OVERS: usize = 9;

/// So often a release is looked for that has granted the lock.
const LOOKS: usize = 50;

/// Asks for the lock, and waits for it.
fn waits(key: &Arc<str>, owner: &Owner, claim: Duration, entry_ttl: Duration) -> Acquire {
    let mut request = long(key, owner);
    request.queue = Some(Queue::new(claim, entry_ttl));
    request
}

/// A holder, and a waiter of another process.
struct Waiting {
    holder: (Process, Owner),
    waiter: (Process, Owner),
    key: Arc<str>,
}

impl Waiting {
    async fn begin(place: &Place, waiter: Process, claim: Duration) -> Result<Self, Broken> {
        let holder = place.process_apart().await?;
        let key = place.key(0);
        let (first, next) = (holder.owner(), waiter.owner());
        holder.takes(&long(&key, &first)).await?;
        waiter.meets(&waits(&key, &next, claim, LONG)).await?;
        Ok(Waiting { holder: (holder, first), waiter: (waiter, next), key })
    }

    async fn releases(&self) -> Result<(), Broken> {
        let (holder, first) = &self.holder;
        holder.gives_back(&self.key, first).await
    }

    /// Waits until the store has granted the lock to the waiter. `false`: it has left the lock free.
    async fn is_granted(&self) -> Result<bool, Broken> {
        let (waiter, next) = &self.waiter;
        match waiter.is_told(&self.key, next).await? {
            Told::Granted { .. } => Ok(true),
            Told::Free => waiter.is_held_by(&self.key, next).await,
        }
    }
}

pub(crate) async fn a_waiter_is_told_when_the_lock_is_released(place: Place) -> Result<(), Broken> {
    let (holder, waiter) = (place.process_apart().await?, place.process_apart().await?);
    let mut in_time = 0;
    for round in 0..HAND_OVERS {
        let (key, first, next) = (place.key(round), holder.owner(), waiter.owner());
        holder.takes(&long(&key, &first)).await?;
        waiter.meets(&waits(&key, &next, LONG, LONG)).await?;
        let released = Instant::now();
        holder.gives_back(&key, &first).await?;
        waiter.is_told(&key, &next).await?;
        in_time += usize::from(released.elapsed() < NOTIFIED_WITHIN);
    }
    ensure!(
        in_time > HAND_OVERS / 2,
        "of {HAND_OVERS} releases {in_time} were reported within {NOTIFIED_WITHIN:?}"
    );
    Ok(())
}

pub(crate) async fn a_granted_lock_is_its_owners(place: Place) -> Result<(), Broken> {
    let waiting = Waiting::begin(&place, place.process_apart().await?, LONG).await?;
    waiting.releases().await?;
    let was_granted = waiting.is_granted().await?;
    let (waiter, next) = &waiting.waiter;
    let reply = waiter.acquire(&long(&waiting.key, next)).await?;
    let is_right = match &reply {
        AcquireReply::AlreadyHeld { .. } => true,
        AcquireReply::Acquired { .. } => !was_granted,
        _ => false,
    };
    ensure!(is_right, "`{}` was released to {next}, whose acquire says {reply:?}", waiting.key);
    waiter.gives_back(&waiting.key, next).await?;
    // And so it is if it is released without having been claimed.
    let waiting = Waiting::begin(&place, place.process_apart().await?, LONG).await?;
    waiting.releases().await?;
    let was_granted = waiting.is_granted().await?;
    let (waiter, next) = &waiting.waiter;
    let reply = waiter.release(&Release::new(waiting.key.clone(), next)).await?;
    ensure!(
        reply == ReleaseReply::Released || !was_granted,
        "`{}` was granted to {next}, whose release says {reply:?}",
        waiting.key
    );
    let (holder, _) = &waiting.holder;
    holder.takes(&long(&waiting.key, &holder.owner())).await.map(drop)
}

pub(crate) async fn an_owner_that_gets_the_lock_leaves_the_queue(place: Place) -> Result<(), Broken> {
    let waiting = Waiting::begin(&place, place.process_apart().await?, LONG).await?;
    waiting.releases().await?;
    waiting.is_granted().await?;
    let (waiter, next) = &waiting.waiter;
    let got = waiter.acquire(&waits(&waiting.key, next, LONG, LONG)).await?;
    ensure!(got.is_acquired(), "`{}` was released to {next}, whose acquire says {got:?}", waiting.key);
    let shown = waiter.inspect(&waiting.key).await?.map_or(0, |lock| lock.waiters);
    ensure!(shown == 0, "{next} holds `{}`, and {shown} wait for it, although no request waits", waiting.key);
    waiter.gives_back(&waiting.key, next).await?;
    let (holder, _) = &waiting.holder;
    holder.takes(&long(&waiting.key, &holder.owner())).await.map(drop)
}

pub(crate) async fn a_release_ends_a_place_in_the_queue(place: Place) -> Result<(), Broken> {
    let waiting = Waiting::begin(&place, place.process_apart().await?, LONG).await?;
    let (waiter, next) = &waiting.waiter;
    waiter.gives_back(&waiting.key, next).await?;
    waiting.releases().await?;
    let (holder, _) = &waiting.holder;
    holder.takes(&long(&waiting.key, &holder.owner())).await.map(drop)
}

pub(crate) async fn waiters_keep_their_places_when_the_lock_is_replaced(place: Place) -> Result<(), Broken> {
    let waiting = Waiting::begin(&place, place.process_apart().await?, LONG).await?;
    let ((holder, first), (waiter, next), key) = (&waiting.holder, &waiting.waiter, &waiting.key);
    if !holder.abilities.replaces {
        return Ok(());
    }
    let newcomer = place.process_apart().await?;
    let (second, late) = (newcomer.owner(), newcomer.owner());
    let reply = newcomer.replace(&Replace::new(key.clone(), first, &second, LONG)).await?;
    let is_right = matches!(reply, ReplaceReply::Replaced { .. });
    ensure!(is_right, "{first} has `{key}`, and replacing it says {reply:?}");
    newcomer.meets(&waits(key, &late, LONG, LONG)).await?;
    newcomer.gives_back(key, &second).await?;
    let end = Instant::now() + BOUND;
    while !waiter.acquire(&waits(key, next, LONG, LONG)).await?.is_acquired() {
        let has_overtaken = holder.is_held_by(key, &late).await?;
        ensure!(!has_overtaken, "{next} waits for `{key}`, and {late}, which came later, has it");
        ensure!(Instant::now() < end, "`{key}` is free, and {next}, which waits for it, does not acquire it");
    }
    waiter.gives_back(key, next).await
}

pub(crate) async fn a_forced_release_serves_the_next_waiter(place: Place) -> Result<(), Broken> {
    let waiting = Waiting::begin(&place, place.process_apart().await?, LONG).await?;
    let ((holder, _), (waiter, next), key) = (&waiting.holder, &waiting.waiter, &waiting.key);
    ensure!(holder.force_release(key).await?, "`{key}` is held, and its forced release says that it is not");
    waiting.is_granted().await?;
    let reply = waiter.acquire(&waits(key, next, LONG, LONG)).await?;
    ensure!(
        reply.is_acquired(),
        "`{key}` was released by force, and the acquire of {next}, the next, says {reply:?}"
    );
    waiter.gives_back(key, next).await
}

/// The owner has died, so it does not ask.
pub(crate) async fn a_grant_ends_with_its_claim(place: Place) -> Result<(), Broken> {
    let claim = place.short();
    let waiting = Waiting::begin(&place, place.process_apart().await?, claim).await?;
    let released = clock::now();
    waiting.releases().await?;
    let was_granted = waiting.is_granted().await?;
    let Waiting { holder: (holder, _), waiter: (waiter, next), key } = waiting;
    drop(waiter);
    if !was_granted {
        return Ok(());
    }
    let left = holder.remaining(&key, &next).await.unwrap_or_default().unwrap_or_default();
    ensure!(left < claim + BOUND, "a grant with a claim of {claim:?} on `{key}` lasts {left:?}");
    super::lease::ends_not_before(&holder, &key, released, claim).await
}

pub(crate) async fn a_place_whose_owner_does_not_ask_is_passed_over(place: Place) -> Result<(), Broken> {
    let entry_ttl = place.short();
    let (holder, dead) = (place.process_apart().await?, place.process_apart().await?);
    let waiter = place.process_apart().await?;
    let (key, first, next) = (place.key(0), holder.owner(), waiter.owner());
    let gone = dead.owner();
    holder.takes(&long(&key, &first)).await?;
    dead.meets(&waits(&key, &gone, LONG, entry_ttl)).await?;
    drop(dead);
    waiter.meets(&waits(&key, &next, LONG, LONG)).await?;
    // This waits for no other process: the rule is about this time.
    tokio::time::sleep(entry_ttl * 2).await;
    holder.gives_back(&key, &first).await?;
    let end = Instant::now() + BOUND;
    while !waiter.acquire(&waits(&key, &next, LONG, LONG)).await?.is_acquired() {
        let is_granted = holder.is_held_by(&key, &gone).await?;
        ensure!(
            !is_granted,
            "{gone} has sent no request for {:?}, and `{key}` was granted to it",
            entry_ttl * 2
        );
        ensure!(Instant::now() < end, "`{key}` is free, and {next}, which waits for it, does not acquire it");
    }
    waiter.gives_back(&key, &next).await
}

/// The report of a grant is held back, and then comes late. (A session's leases do not count from their grants.)
pub(crate) async fn a_grant_is_not_older_than_it_says(place: Place) -> Result<(), Broken> {
    let waiting = Waiting::begin(&place, place.process().await?, LONG).await?;
    let ((holder, _), (waiter, next)) = (&waiting.holder, &waiting.waiter);
    place.hold().await;
    waiting.releases().await?;
    // A store that leaves the lock free grants nothing.
    let mut is_granted = false;
    for _ in 0..LOOKS {
        is_granted = is_granted || holder.is_held_by(&waiting.key, next).await?;
    }
    // It was granted by now.
    let seen = clock::now();
    tokio::time::sleep(place.short()).await;
    place.mend().await;
    let told = waiter.is_told(&waiting.key, next).await?;
    if let Told::Granted { made: Some(made), .. } = told
        && is_granted
    {
        let passed = clock::now().duration_since(seen);
        // Ages may be in milliseconds.
        let latest = seen.after(drift(passed)).after(Duration::from_millis(2));
        ensure!(
            made <= latest,
            "`{}` was granted to {next} {passed:?} ago at least, and the report says {:?}",
            waiting.key,
            clock::now().duration_since(made)
        );
    }
    Ok(())
}
