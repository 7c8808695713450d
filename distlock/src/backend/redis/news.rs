//! What sentinels tell without being asked: that the master has changed.
//!
//! Only a reason to ask them at once. They are asked every second anyway, so whatever is missed here costs a
//! second, in which a demoted master may still take acquisitions that will be lost.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream as _;
use redis::RedisResult;
use redis::aio::PubSub;
use tokio::time::{Instant, sleep, timeout};

use super::backoff::Backoff;
use super::config::Address;
use super::first_reply;
use super::login::Login;
use super::stream::{Pulse, Stream};
use super::tls::Tls;
use super::trace;

/// The first is told by the sentinel that leads a fail-over, as soon as it answers with the new master; the
/// second by every sentinel that has heard of it.
const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];
/// The longest pause between two attempts.
const PAUSE: Duration = Duration::from_secs(10);
/// A subscription that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(1);

/// Calls `tell` whenever the sentinel at `address` has news, and when news may have been missed; for ever.
/// `patience`: how long it may take to subscribe.
pub(super) async fn hear(
    address: &Address,
    login: &Login,
    tls: &Tls,
    patience: Duration,
    tell: impl Fn() + Send,
) {
    let mut backoff = Backoff::up_to(PAUSE);
    loop {
        let since = Instant::now();
        match timeout(patience, subscribe(address, login, tls)).await {
            Ok(Ok(subscribed)) => {
                let (_sink, mut messages) = subscribed.split();
                tell();
                while poll_fn(|cx| Pin::new(&mut messages).poll_next(cx)).await.is_some() {
                    tell();
                }
                if since.elapsed() >= GOOD {
                    backoff = Backoff::up_to(PAUSE);
                }
            }
            Ok(Err(error)) => trace::debug(&format!("no news from the sentinel at {address}: {error}")),
            Err(_) => trace::debug(&format!("no news from the sentinel at {address}: no answer")),
        }
        sleep(backoff.next()).await;
    }
}

async fn subscribe(address: &Address, login: &Login, tls: &Tls) -> RedisResult<PubSub> {
    let mut stream = Stream::connect(address, tls, Arc::new(Pulse::default())).await?;
    first_reply::exchange(&mut stream).await?;
    let mut subscribed = PubSub::new(&login.shown().await?.settings, stream).await?;
    for channel in CHANNELS {
        subscribed.subscribe(channel).await?;
    }
    Ok(subscribed)
}
