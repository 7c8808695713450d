//! The events of sentinels: the master has changed.
//!
//! Such an event only makes this client ask them immediately. They are asked every 30 seconds anyway, and each second
//! without a subscription. So if all of them fail to deliver the event, a demoted master may for up to 30 seconds still
//! accept acquisitions that will be lost. The kernel drops a dead connection sooner (see dial.rs), and its end is also
//! a reason to ask.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_core::Stream as _;
use redis::RedisResult;
use redis::aio::PubSub;
use tokio::time::{Instant, sleep, timeout};

use super::config::Address;
use super::first_reply;
use super::login::Login;
use super::stream::{Liveness, Stream};
use super::tls::Tls;
use crate::observe::{Notice, notice};
use distlock_store::kit::backoff::Backoff;

/// The sentinel that leads a fail-over publishes the first one, as soon as it reports the new master. Every sentinel
/// that has learned of the new master publishes the second one.
const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];
/// The longest pause between two attempts.
const LONGEST_SUBSCRIBE_PAUSE: Duration = Duration::from_secs(10);
/// A subscription that lasted this long was stable.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// Calls `tell` whenever the sentinel at `address` has news of `master`, and when news may have been missed.
/// Never returns. `time_limit`: how long subscribing may take; `telling`: whether the subscription is active.
pub(super) async fn listen(
    (address, master): (&Address, &str),
    login: &Login,
    tls: &Tls,
    time_limit: Duration,
    telling: &AtomicBool,
    tell: impl Fn() + Send,
) {
    let mut backoff = Backoff::up_to(LONGEST_SUBSCRIBE_PAUSE);
    loop {
        let since = Instant::now();
        match timeout(time_limit, subscribe(address, login, tls)).await {
            Ok(Ok(subscribed)) => {
                let (_sink, mut messages) = subscribed.split();
                telling.store(true, Ordering::SeqCst);
                tell();
                while let Some(message) = poll_fn(|cx| Pin::new(&mut messages).poll_next(cx)).await {
                    if is_about(master, message.get_payload_bytes()) {
                        tell();
                    }
                }
                telling.store(false, Ordering::SeqCst);
                tell();
                if since.elapsed() >= STABLE_AFTER {
                    backoff = Backoff::up_to(LONGEST_SUBSCRIBE_PAUSE);
                }
            }
            Ok(Err(error)) => notice(Notice::NoSentinelNews { sentinel: &address, error: &error }),
            Err(_) => notice(Notice::NoSentinelNews { sentinel: &address, error: &"no answer" }),
        }
        sleep(backoff.next_pause()).await;
    }
}

/// A sentinel may watch many masters, and puts the name of the master concerned between blanks.
pub(super) fn is_about(master: &str, message: &[u8]) -> bool {
    let message = String::from_utf8_lossy(message);
    format!(" {message} ").contains(&format!(" {master} "))
}

async fn subscribe(address: &Address, login: &Login, tls: &Tls) -> RedisResult<PubSub> {
    let mut stream = Stream::connect(address, tls, Arc::new(Liveness::default())).await?;
    first_reply::exchange(&mut stream).await?;
    let mut subscribed = PubSub::new(&login.shown().await?.settings, stream).await?;
    for channel in CHANNELS {
        subscribed.subscribe(channel).await?;
    }
    Ok(subscribed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_of_another_master_are_not_for_us() {
        let promoted = b"slave 127.0.0.1:7001 127.0.0.1 7001 @ mymaster 127.0.0.1 7000";
        for message in [b"mymaster 127.0.0.1 7000 127.0.0.1 7001".as_slice(), promoted] {
            assert!(is_about("mymaster", message));
            assert!(!is_about("master", message) && !is_about("mymaster2", message));
        }
    }
}
