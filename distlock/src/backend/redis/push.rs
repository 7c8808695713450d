//! The connection on which grants arrive. It subscribes to the channel of this client and, on a node of a cluster, to
//! its channels in slots. It carries no commands, because their replies could be mistaken for each other.
//!
//! Pushes are hints. Without this connection waiters ask by timer, only later.

use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream as _;
use redis::aio::{MultiplexedConnection, PubSub, PubSubSink, PubSubStream};
use redis::{
    AsyncConnectionConfig, ErrorKind, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisError, RedisResult,
    Value, cmd,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::command::Wire;
use super::config::Address;
use super::endpoint::{Connects, Endpoint};
use super::link::{self, Driver};
use super::slot_channels::{Change, SlotChannels};
use super::slots::slot_of;
use super::stream::{Liveness, Stream};
use super::{errors, first_reply, info};
use crate::backend::{Failure, Notifications, Push, ServerTime, StoreError, parse_token};
use crate::observe::{Notice, notice};
use crate::protocol::records::LONGEST_KEY;
use distlock_store::kit::backoff::{Backoff, jittered};

/// After this much silence the connection is probed with a PING.
const SILENCE_BEFORE_PROBE: Duration = Duration::from_secs(3);
/// How often a server that has refused the subscription is asked again.
const REFUSED_SUBSCRIBE_PAUSE: Duration = Duration::from_secs(30);
/// How long a refusal is remembered.
const REFUSAL_MEMORY: Duration = Duration::from_secs(3600);
/// If a server closes the connection this many times in a row when asked for pushes, it is taken to have
/// none.
const CLOSED_OFTEN: u32 = 4;
/// A subscription that lasted this long was stable, so the next attempt is immediate.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// The receiver of pushes.
pub(super) trait Listener: Connects + 'static {
    /// Where to subscribe.
    fn locate(&self) -> impl Future<Output = Result<Address, StoreError>> + Send;
    /// The subscription is confirmed.
    fn subscribed(&self, at: Endpoint);
    /// There is no subscription.
    fn unsubscribed(&self);
    /// Returns when the connection must be made again, because it leads to the wrong server.
    fn moved(&self) -> impl Future<Output = ()> + Send;
    /// The channels in slots to which the connection subscribes, too, if the server is a node of a cluster.
    fn slot_channels(&self) -> Option<&SlotChannels> {
        None
    }
    /// `from`: how the server that made the grant is named in the push.
    fn push(&self, push: Push, from: Option<&str>);
}

/// The reason why there is no subscription.
enum SubscribeError {
    /// The server is unreachable, perhaps only now.
    Passing(RedisError),
    /// It closed the connection when it was asked for pushes. It may have been stopped at that moment, or may
    /// be a proxy that closes on commands that it does not know.
    Closed(RedisError),
    /// It does not know or does not allow HELLO.
    NoResp3,
    /// It replies, but does not allow the subscription.
    Refused(RedisError),
}

/// The data that is kept from one connection to the next, so that refused commands are not sent every time.
#[derive(Debug, Default)]
struct SubscribeRefusals {
    no_resp3: Option<Instant>,
    no_info: Option<Instant>,
    no_name: Option<Instant>,
}

impl SubscribeRefusals {
    fn protocol(&self) -> ProtocolVersion {
        if is_fresh(self.no_resp3) { ProtocolVersion::RESP2 } else { ProtocolVersion::RESP3 }
    }
}

fn is_fresh(since: Option<Instant>) -> bool {
    since.is_some_and(|since| since.elapsed() < REFUSAL_MEMORY)
}

pub(super) async fn listen(listener: Arc<impl Listener>) {
    let mut memory = SubscribeRefusals::default();
    let (mut soon, mut late) = (Backoff::default(), Backoff::up_to(REFUSED_SUBSCRIBE_PAUSE));
    let mut closed = 0;
    let mut warned = false;
    listener.wanted().await;
    loop {
        let attempt = timeout(listener.config().connect_timeout, subscribe(&listener, &mut memory)).await;
        let pause = match attempt {
            Ok(Ok(subscription)) => {
                let since = Instant::now();
                closed = 0;
                let error = subscription.last(&*listener).await;
                notice(Notice::PushLinkLost { server: &listener.place(), error: &error });
                if since.elapsed() >= STABLE_AFTER {
                    (soon, late) = (Backoff::default(), Backoff::up_to(REFUSED_SUBSCRIBE_PAUSE));
                    Duration::ZERO
                } else {
                    soon.next_pause()
                }
            }
            Ok(Err(SubscribeError::NoResp3)) => {
                memory.no_resp3 = Some(Instant::now());
                continue;
            }
            Ok(Err(SubscribeError::Closed(error))) => {
                closed += 1;
                // Some servers close only on HELLO.
                memory.no_resp3 = if is_fresh(memory.no_resp3) { None } else { Some(Instant::now()) };
                if closed >= CLOSED_OFTEN {
                    warn_once(&*listener, &error, &mut warned);
                }
                late.next_pause()
            }
            Ok(Err(SubscribeError::Refused(error))) => {
                warn_once(&*listener, &error, &mut warned);
                jittered(REFUSED_SUBSCRIBE_PAUSE)
            }
            Ok(Err(SubscribeError::Passing(error))) => {
                notice(Notice::NoPushLink { server: &listener.place(), error: &error });
                soon.next_pause()
            }
            Err(_) => soon.next_pause(),
        };
        listener.unsubscribed();
        sleep(pause).await;
    }
}

fn warn_once(listener: &impl Listener, error: &RedisError, warned: &mut bool) {
    if !std::mem::replace(warned, true) {
        let (server, channel) = (listener.place(), listener.wire().channel());
        notice(Notice::NoPushes { server: &server, channel: &channel, error });
    }
}

/// A confirmed subscription.
struct Subscription {
    push_stream: PushStream,
    liveness: Arc<Liveness>,
    at: Endpoint,
}

enum PushStream {
    /// Pushes are delivered by the driver.
    Resp3(MultiplexedConnection, Driver),
    /// Messages are read from a stream, and only subscriptions can be sent, so the connection has no name. Credentials
    /// that expire cannot be renewed here, so the connection is replaced.
    Resp2(PubSubSink, PubSubStream, Option<Instant>),
}

async fn subscribe(
    listener: &Arc<impl Listener>,
    memory: &mut SubscribeRefusals,
) -> Result<Subscription, SubscribeError> {
    let config = listener.config();
    let address = listener.locate().await.map_err(|error| {
        let error = (ErrorKind::Io, "there is no server to subscribe to", error.to_string());
        SubscribeError::Passing(RedisError::from(error))
    })?;
    let liveness = Arc::new(Liveness::default());
    let stream = Stream::connect(&address, &config.tls, Arc::clone(&liveness)).await;
    let mut stream = stream.map_err(|error| SubscribeError::Passing(error.into()))?;
    first_reply::exchange(&mut stream).await.map_err(SubscribeError::Passing)?;
    // From here on the server has been reached.
    match memory.protocol() {
        ProtocolVersion::RESP2 => {
            let push_stream = subscribe_by_resp2(listener, stream).await?;
            Ok(Subscription { push_stream, liveness, at: Endpoint { address, run_id: None } })
        }
        _ => {
            let (push_stream, run_id) = subscribe_by_resp3(listener, stream, memory).await?;
            Ok(Subscription { push_stream, liveness, at: Endpoint { address, run_id } })
        }
    }
}

async fn subscribe_by_resp2(
    listener: &Arc<impl Listener>,
    stream: Stream,
) -> Result<PushStream, SubscribeError> {
    let login = listener.config().login.speaking(ProtocolVersion::RESP2);
    let shown = login.shown().await.map_err(|error| SubscribeError::Passing(error.into()))?;
    let subscriber =
        PubSub::new(&shown.settings, stream).await.map_err(|error| match error.is_io_error() {
            true => SubscribeError::Closed(error),
            false => SubscribeError::Passing(error),
        })?;
    let (mut sink, stream) = subscriber.split();
    sink.subscribe(listener.wire().channel()).await.map_err(unsubscribed)?;
    Ok(PushStream::Resp2(sink, stream, shown.renew_at))
}

async fn subscribe_by_resp3(
    listener: &Arc<impl Listener>,
    stream: Stream,
    memory: &mut SubscribeRefusals,
) -> Result<(PushStream, Option<String>), SubscribeError> {
    let login = listener.config().login.speaking(ProtocolVersion::RESP3);
    let shown = login.shown().await.map_err(|error| SubscribeError::Passing(error.into()))?;
    let to = Arc::downgrade(listener);
    let settings = AsyncConnectionConfig::new().set_push_sender(move |info: PushInfo| {
        let Some(to) = to.upgrade() else { return Ok::<(), ()>(()) };
        match (&info.kind, info.data.as_slice()) {
            (PushKind::Message | PushKind::SMessage, [_, Value::BulkString(payload)]) => {
                deliver(&*to, payload)
            }
            // This may arrive without a request, when the node no longer serves the slot.
            (PushKind::SUnsubscribe, [Value::BulkString(channel), ..]) => {
                if let (Some(channels), Ok(channel)) = (to.slot_channels(), str::from_utf8(channel)) {
                    channels.lost(slot_of("", channel));
                }
            }
            _ => {}
        }
        Ok(())
    });
    let (mut connection, driver) = link::log_in(&login, shown, stream, settings).await.map_err(|error| {
        if error.is_io_error() {
            SubscribeError::Closed(error)
        } else if matches!(error.code(), Some("WRONGPASS" | "NOAUTH")) {
            // The password may be changed at this moment. The server knows HELLO.
            SubscribeError::Passing(error)
        } else {
            // HELLO is unknown or forbidden.
            SubscribeError::NoResp3
        }
    })?;
    let run_id = if is_fresh(memory.no_info) {
        None
    } else {
        let question = cmd("INFO").arg("server").to_owned();
        let info = connection.send_packed_command(&question).await.map_err(SubscribeError::Closed)?;
        if matches!(info, Value::ServerError(_)) {
            memory.no_info = Some(Instant::now());
        }
        info::field(info::text(&info), "run_id").map(str::to_owned)
    };
    connection.subscribe(listener.wire().channel()).await.map_err(unsubscribed)?;
    // Last, so that a connection with this name that is not subscribed is known to be one for commands.
    if !is_fresh(memory.no_name) {
        let naming = cmd("CLIENT").arg("SETNAME").arg(&listener.config().client).to_owned();
        let named = connection.send_packed_command(&naming).await.map_err(SubscribeError::Closed)?;
        if matches!(named, Value::ServerError(_)) {
            memory.no_name = Some(Instant::now());
        }
    }
    Ok((PushStream::Resp3(connection, driver), run_id))
}

/// Why SUBSCRIBE failed.
fn unsubscribed(error: RedisError) -> SubscribeError {
    match errors::failure(&error) {
        _ if error.is_io_error() => SubscribeError::Closed(error),
        Some(Failure::Later) => SubscribeError::Passing(error),
        _ => SubscribeError::Refused(error),
    }
}

impl Subscription {
    /// Reports and serves the subscription until it ends, and returns why it did.
    async fn last(self, listener: &impl Listener) -> RedisError {
        let Subscription { push_stream, liveness, at } = self;
        let time_limit = listener.config().op_timeout;
        match push_stream {
            PushStream::Resp3(mut connection, mut driver) => {
                tokio::select! {
                    // Reports first. Otherwise, a notification from before this connection would count as a move.
                    biased;
                    () = follow_slots(listener, connection.clone(), at) => closed(),
                    _ = &mut driver.0 => closed(),
                    () = listener.moved() => closed(),
                    error = async {
                        loop {
                            silence(&liveness).await;
                            let ping = cmd("PING");
                            let ping = connection.send_packed_command(&ping);
                            if let Some(error) = judge(timeout(time_limit, ping).await) {
                                return error;
                            }
                        }
                    } => error,
                }
            }
            PushStream::Resp2(mut sink, mut stream, renew_at) => {
                listener.subscribed(at);
                tokio::select! {
                    () = async {
                        match renew_at {
                            Some(at) => sleep_until(at).await,
                            None => std::future::pending().await,
                        }
                    } => RedisError::from((ErrorKind::Io, "its credentials are about to end")),
                    () = async {
                        while let Some(message) =
                            std::future::poll_fn(|cx| std::pin::Pin::new(&mut stream).poll_next(cx)).await
                        {
                            deliver(listener, message.get_payload_bytes());
                        }
                    } => closed(),
                    () = listener.moved() => closed(),
                    error = async {
                        loop {
                            silence(&liveness).await;
                            if let Some(error) = judge(timeout(time_limit, sink.ping::<Value>()).await) {
                                return error;
                            }
                        }
                    } => error,
                }
            }
        }
    }
}

/// Reports the subscription, and keeps those to the channels in slots. Returns if the connection is closed.
///
/// Waiters ask as soon as the subscription is reported, so the channels of their slots come before. Otherwise, a grant
/// in between would be pushed to a former connection that the server takes to be alive.
async fn follow_slots(listener: &impl Listener, mut connection: MultiplexedConnection, at: Endpoint) {
    let Some(channels) = listener.slot_channels() else {
        listener.subscribed(at);
        return std::future::pending().await;
    };
    let Ok(mut pushes) = change_slots(listener, channels, &mut connection, channels.begin()).await else {
        return;
    };
    listener.subscribed(at);
    while pushes == Notifications::On {
        let changes = channels.changes().await;
        let Ok(now) = change_slots(listener, channels, &mut connection, changes).await else { return };
        pushes = now;
    }
    std::future::pending().await
}

/// Returns [`Notifications::Off`] if subscriptions in slots are not permitted, or not now: pushes come by PUBLISH until
/// the connection is made again.
///
/// If the node ends a subscription because a slot moves, the client library treats its message as the reply to a
/// command. So an error here may belong to another slot. This costs messages between the nodes, but loses no push.
async fn change_slots(
    listener: &impl Listener,
    channels: &SlotChannels,
    connection: &mut MultiplexedConnection,
    changes: Vec<(Change, u16)>,
) -> RedisResult<Notifications> {
    if changes.is_empty() {
        return Ok(Notifications::On);
    }
    let mut pipeline = Pipeline::with_capacity(changes.len());
    for (change, slot) in &changes {
        let verb = match change {
            Change::Subscribe => "SSUBSCRIBE",
            Change::Unsubscribe => "SUNSUBSCRIBE",
        };
        // One by one: all channels of a command must be in one slot.
        pipeline.cmd(verb).arg(listener.wire().channel_in(*slot));
    }
    let replies = connection.send_packed_commands(&pipeline, 0, changes.len()).await?;
    let mut pushes = Notifications::On;
    for ((_, slot), reply) in changes.into_iter().zip(replies) {
        let Value::ServerError(error) = reply else { continue };
        channels.lost(slot);
        if error.code() != "MOVED" {
            pushes = Notifications::Off;
        }
    }
    Ok(pushes)
}

/// Returns once no byte has arrived for a while.
async fn silence(liveness: &Liveness) {
    loop {
        let heard = liveness.heard();
        sleep(SILENCE_BEFORE_PROBE).await;
        if liveness.heard() == heard {
            return;
        }
    }
}

/// Whether the reply to a PING, or its absence, ends the connection. Any reply proves that the server is
/// alive.
fn judge(answer: Result<RedisResult<Value>, tokio::time::error::Elapsed>) -> Option<RedisError> {
    match answer {
        Ok(Err(error)) if error.is_io_error() => Some(error),
        Ok(_) => None,
        Err(_) => Some(RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut))),
    }
}

fn closed() -> RedisError {
    RedisError::from((ErrorKind::Io, "the server closed the connection"))
}

fn deliver(listener: &impl Listener, payload: &[u8]) {
    let text = std::str::from_utf8(payload).ok();
    match text.and_then(|text| parse(listener.wire(), text)) {
        Some((push, from)) => listener.push(push, from),
        None => notice(Notice::OddPush),
    }
}

/// See scripts/serve.lua and scripts/queue.lua. The lock's name comes last because it may contain blanks.
pub(super) fn parse<'a>(wire: &Wire, text: &'a str) -> Option<(Push, Option<&'a str>)> {
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        "g" => {
            let mut parts = rest.splitn(5, ' ');
            let server_time = parts.next()?;
            let (server_time, from) = server_time
                .split_once('@')
                .map_or((server_time, None), |(server_time, from)| (server_time, Some(from)));
            let server_time = ServerTime(server_time.parse().ok()?);
            let handoffs_began = ServerTime(parts.next()?.parse().ok()?);
            let fence: u64 = parts.next()?.parse().ok()?;
            let token = parse_token(&wire.client, parts.next()?)?;
            let key = key(wire, parts.next()?)?;
            Some((
                Push::Grant { key, token, server_time, handoffs_began, fence: (fence != 0).then_some(fence) },
                from,
            ))
        }
        "p" => {
            let (token, lock) = rest.split_once(' ')?;
            let token = parse_token(&wire.client, token)?;
            Some((Push::Gap { key: key(wire, lock)?, token }, None))
        }
        "w" => {
            let (token, lock) = rest.split_once(' ')?;
            let token = parse_token(&wire.client, token)?;
            Some((Push::Wanted { key: key(wire, lock)?, token }, None))
        }
        _ => None,
    }
}

/// The key of a lock of this client. A script never pushes a key that is longer than a program may request.
fn key(wire: &Wire, lock: &str) -> Option<Arc<str>> {
    wire.names.key_of(lock).filter(|key| key.len() <= LONGEST_KEY).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::names::Names;
    use crate::backend::{Token, Tuning};

    #[test]
    fn a_push_names_a_key_that_may_contain_blanks() {
        let wire = Wire::new(Names::new("p:".into()), "c".into(), &Tuning::default());
        assert_eq!(
            parse(&wire, "g 5 4 9 dl1:c:7 p:a key"),
            Some((
                Push::Grant {
                    key: Arc::from("a key"),
                    token: Token(7),
                    server_time: ServerTime(5),
                    handoffs_began: ServerTime(4),
                    fence: Some(9)
                },
                None
            ))
        );
        let gap = Push::Gap { key: Arc::from("k"), token: Token(7) };
        assert_eq!(parse(&wire, "p dl1:c:7 p:k"), Some((gap, None)));
        assert_eq!(parse(&wire, "g 5@n1 4 0 dl1:c:7 p:k").unwrap().1, Some("n1"));
    }

    #[test]
    fn what_is_not_for_us_is_ignored() {
        let wire = Wire::new(Names::new("p:".into()), "c".into(), &Tuning::default());
        for text in ["", "g", "x 1", "g 5 4 0 dl1:other:7 p:k", "g 5 4 0 dl1:c:7 k", "g a 4 0 dl1:c:7 p:k"] {
            assert_eq!(parse(&wire, text), None, "{text}");
        }
        for (bytes, is_read) in [(LONGEST_KEY, true), (LONGEST_KEY + 1, false)] {
            let key = "k".repeat(bytes);
            for kind in ["g 5 4 0 dl1:c:7", "p dl1:c:7", "w dl1:c:7"] {
                assert_eq!(parse(&wire, &format!("{kind} p:{key}")).is_some(), is_read, "{kind} {bytes}");
            }
        }
    }
}
