//! What a new connection for pushes does before the waiters ask.

use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use super::RedisConfig;
use super::command::Wire;
use super::config::Address;
use super::endpoint::{Connects, Endpoint};
use super::names::Names;
use super::push::{Listener, listen};
use super::slot_channels::SlotChannels;
use super::test_scripted::{Answer, Scripted};
use crate::backend::{Push, StoreError, Tuning};

/// A process that waits, in some slots or on one server.
struct Waiting {
    config: RedisConfig,
    wire: Arc<Wire>,
    address: Address,
    channels: Option<SlotChannels>,
    /// The waiters ask.
    reported: Arc<AtomicBool>,
    changed: Notify,
}

impl Connects for Waiting {
    fn config(&self) -> &RedisConfig {
        &self.config
    }

    fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    fn place(&self) -> String {
        "a scripted node".to_owned()
    }

    async fn wanted(&self) {}
}

impl Listener for Waiting {
    async fn locate(&self) -> Result<Address, StoreError> {
        Ok(self.address.clone())
    }

    fn subscribed(&self, _at: Endpoint) {
        self.reported.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    fn unsubscribed(&self) {}

    /// On one server, as if a notification from before the connection were left.
    async fn moved(&self) {
        if self.channels.is_some() || self.reported.load(Ordering::SeqCst) {
            pending().await
        }
    }

    fn slot_channels(&self) -> Option<&SlotChannels> {
        self.channels.as_ref()
    }

    fn push(&self, _push: Push, _from: Option<&str>) {}
}

impl Waiting {
    async fn until_reported(self) {
        let waiting = Arc::new(self);
        tokio::select! {
            () = listen(Arc::clone(&waiting)) => unreachable!("it listens without end"),
            () = waiting.changed.notified() => {}
        }
    }

    fn at(server: &Scripted, channels: Option<SlotChannels>, reported: Arc<AtomicBool>) -> Self {
        Waiting {
            config: RedisConfig::new(&server.url(), "a").unwrap(),
            wire: Arc::new(Wire::new(Names::new(String::new()), "a".to_owned(), &Tuning::default())),
            address: Address::Tcp { host: "127.0.0.1".to_owned(), port: server.address.port() },
            channels,
            reported,
            changed: Notify::new(),
        }
    }
}

/// The replies of a server that speaks RESP3.
fn reply(words: &[&str]) -> &'static str {
    match words {
        ["PING"] => "+PONG\r\n",
        ["HELLO", ..] => "%1\r\n$5\r\nproto\r\n:3\r\n",
        ["SUBSCRIBE", _] => ">3\r\n$9\r\nsubscribe\r\n$7\r\ndl1:c:a\r\n:1\r\n",
        ["SSUBSCRIBE", _] => ">3\r\n$10\r\nssubscribe\r\n$10\r\ndl1:c:{7}a\r\n:1\r\n",
        _ => "-ERR unknown command\r\n",
    }
}

/// A grant in between would be pushed to the connection before, if the node takes that to be alive.
#[tokio::test]
async fn waiters_ask_after_the_channels_of_their_slots_are_subscribed() {
    let reported = Arc::new(AtomicBool::new(false));
    let asked_before = Arc::new(OnceLock::new());
    let (flag, seen) = (Arc::clone(&reported), Arc::clone(&asked_before));
    let server = Scripted::start(move |words| {
        if let ["SSUBSCRIBE", _] = words {
            seen.set(flag.load(Ordering::SeqCst)).expect("it waits in one slot");
        }
        Answer::Line(reply(words))
    });
    let channels = SlotChannels::default();
    channels.want(7);
    Waiting::at(&server, Some(channels), reported).until_reported().await;
    assert_eq!(asked_before.get(), Some(&false));
}

/// Whether a process has moved depends on the server of its last reported connection.
#[tokio::test]
async fn a_connection_is_reported_before_the_process_looks_whether_it_has_moved() {
    for _ in 0..20 {
        let subscribed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&subscribed);
        let server = Scripted::start(move |words| {
            if let ["SUBSCRIBE", _] = words {
                count.fetch_add(1, Ordering::SeqCst);
            }
            Answer::Line(reply(words))
        });
        Waiting::at(&server, None, Arc::default()).until_reported().await;
        assert_eq!(subscribed.load(Ordering::SeqCst), 1);
    }
}
