//! The connection on which grants arrive. It subscribes to our one channel and carries no commands: mixed with
//! them, replies could be taken for each other.
//!
//! Pushes are hints. Without this connection waiters ask by themselves, only later.

use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream as _;
use redis::aio::{MultiplexedConnection, PubSub, PubSubSink, PubSubStream};
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError,
    RedisResult, Value, cmd,
};
use tokio::time::{sleep, timeout};

use super::super::{Events, Push, ServerTime, parse_token};
use super::backoff::{Backoff, jittered};
use super::command::Wire;
use super::greet;
use super::link::{self, Driver};
use super::standalone::Shared;
use super::stream::{Pulse, Stream};
use super::trace;

/// How often a silent connection is asked for a sign of life.
const PROBE: Duration = Duration::from_secs(3);
/// How often a server that refused the subscription is asked again.
const REFUSED: Duration = Duration::from_secs(30);
/// A subscription that lasted this long was a good one: the next attempt is made at once.
const GOOD: Duration = Duration::from_secs(1);

pub(super) async fn listen(shared: Arc<Shared>, events: Arc<dyn Events>) {
    let mut protocol = ProtocolVersion::RESP3;
    let mut backoff = Backoff::default();
    let mut warned = false;
    shared.wanted().await;
    loop {
        let attempt = timeout(shared.config.connect_timeout, subscribe(&shared, &events, protocol)).await;
        match attempt {
            Ok(Ok(subscription)) => {
                let since = tokio::time::Instant::now();
                shared.listening(&*events, subscription.run_id.clone());
                let error = subscription.last(&shared, &events).await;
                shared.deaf(&*events);
                trace::debug(&format!("{}: push connection lost: {error}", shared.config.address));
                if since.elapsed() >= GOOD {
                    backoff = Backoff::default();
                    continue;
                }
                sleep(backoff.next()).await;
            }
            // Not a failure of the network: perhaps only HELLO is unknown or forbidden.
            Ok(Err(error)) if protocol == ProtocolVersion::RESP3 && !error.is_io_error() => {
                protocol = ProtocolVersion::RESP2;
            }
            Ok(Err(error)) => {
                shared.deaf(&*events);
                protocol = ProtocolVersion::RESP3;
                let forbidden =
                    error.code() == Some("NOPERM") || error.to_string().contains("unknown command");
                if forbidden && !warned {
                    warned = true;
                    trace::warn(&format!(
                        "{}: grants cannot be pushed ({error}): waiters will poll. Allow `+subscribe` and the \
                         channel `{}`",
                        shared.config.address,
                        shared.wire.names.channel(&shared.wire.client)
                    ));
                }
                sleep(if forbidden { jittered(REFUSED) } else { backoff.next() }).await;
            }
            Err(_) => {
                shared.deaf(&*events);
                sleep(backoff.next()).await;
            }
        }
    }
}

/// A confirmed subscription.
struct Subscription {
    voice: Voice,
    pulse: Arc<Pulse>,
    run_id: Option<String>,
}

enum Voice {
    /// Pushes are delivered by the driver.
    Resp3(MultiplexedConnection, Driver),
    /// Messages are taken from a stream.
    Resp2(PubSubSink, PubSubStream),
}

async fn subscribe(
    shared: &Arc<Shared>,
    events: &Arc<dyn Events>,
    protocol: ProtocolVersion,
) -> RedisResult<Subscription> {
    let config = &shared.config;
    let pulse = Arc::new(Pulse::default());
    let stream = Stream::connect(&config.address, Arc::clone(&pulse)).await?;
    let channel = shared.wire.names.channel(&shared.wire.client).to_string();
    let login: RedisConnectionInfo = config.login.clone().set_protocol(protocol);
    if protocol == ProtocolVersion::RESP2 {
        let (mut sink, stream) = PubSub::new(&login, stream).await?.split();
        sink.subscribe(&channel).await?;
        return Ok(Subscription { voice: Voice::Resp2(sink, stream), pulse, run_id: None });
    }
    let (to, wire) = (Arc::clone(events), Arc::clone(&shared.wire));
    let settings = AsyncConnectionConfig::new().set_push_sender(move |info: PushInfo| {
        if let (PushKind::Message, [_, Value::BulkString(payload)]) = (&info.kind, info.data.as_slice()) {
            deliver(&wire, payload, &*to);
        }
        Ok::<(), ()>(())
    });
    let (mut connection, driver) = link::start(&login, stream, settings).await?;
    let info = connection.send_packed_command(cmd("INFO").arg("server")).await?;
    let run_id = greet::field(greet::text(&info), "run_id").map(str::to_owned);
    connection.subscribe(&channel).await?;
    Ok(Subscription { voice: Voice::Resp3(connection, driver), pulse, run_id })
}

impl Subscription {
    /// Serves the subscription until it ends, and returns why it did.
    async fn last(self, shared: &Shared, events: &Arc<dyn Events>) -> RedisError {
        let Subscription { voice, pulse, .. } = self;
        let patience = shared.config.op_timeout;
        match voice {
            Voice::Resp3(mut connection, mut driver) => {
                tokio::select! {
                    _ = &mut driver.0 => closed(),
                    _ = shared.moved() => closed(),
                    error = async {
                        loop {
                            silence(&pulse).await;
                            let ping = cmd("PING");
                            let ping = connection.send_packed_command(&ping);
                            if let Some(error) = judge(timeout(patience, ping).await) {
                                return error;
                            }
                        }
                    } => error,
                }
            }
            Voice::Resp2(mut sink, mut stream) => {
                tokio::select! {
                    () = async {
                        while let Some(message) =
                            std::future::poll_fn(|cx| std::pin::Pin::new(&mut stream).poll_next(cx)).await
                        {
                            deliver(&shared.wire, message.get_payload_bytes(), &**events);
                        }
                    } => closed(),
                    error = async {
                        loop {
                            silence(&pulse).await;
                            if let Some(error) = judge(timeout(patience, sink.ping::<Value>()).await) {
                                return error;
                            }
                        }
                    } => error,
                }
            }
        }
    }
}

/// Returns once nothing has arrived for a while.
async fn silence(pulse: &Pulse) {
    loop {
        let heard = pulse.heard();
        sleep(PROBE).await;
        if pulse.heard() == heard {
            return;
        }
    }
}

/// Whether the answer to a PING, or its absence, ends the connection. Any reply is a sign of life.
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

fn deliver(wire: &Wire, payload: &[u8], events: &dyn Events) {
    match std::str::from_utf8(payload).ok().and_then(|text| parse(wire, text)) {
        Some(push) => events.push(push),
        None => trace::debug("a message on our push channel makes no sense; ignored"),
    }
}

/// See scripts/serve.lua. The lock's name comes last, because it may contain blanks.
fn parse(wire: &Wire, text: &str) -> Option<Push> {
    let (kind, rest) = text.split_once(' ')?;
    match kind {
        "g" => {
            let mut parts = rest.splitn(5, ' ');
            let us = ServerTime(parts.next()?.parse().ok()?);
            let since = ServerTime(parts.next()?.parse().ok()?);
            let fence: u64 = parts.next()?.parse().ok()?;
            let token = parse_token(&wire.client, parts.next()?)?;
            let key = Arc::from(wire.names.key_of(parts.next()?)?);
            Some(Push::Grant { key, token, us, since, fence: (fence != 0).then_some(fence) })
        }
        "p" => {
            let (token, lock) = rest.split_once(' ')?;
            let token = parse_token(&wire.client, token)?;
            Some(Push::Gap { key: Arc::from(wire.names.key_of(lock)?), token })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Token, Tuning};
    use super::*;

    #[test]
    fn a_push_names_a_key_that_may_contain_blanks() {
        let wire = Wire::new("p:".into(), "c".into(), &Tuning::default());
        assert_eq!(
            parse(&wire, "g 5 4 9 dl1:c:7 p:a key"),
            Some(Push::Grant {
                key: Arc::from("a key"),
                token: Token(7),
                us: ServerTime(5),
                since: ServerTime(4),
                fence: Some(9)
            })
        );
        assert_eq!(parse(&wire, "p dl1:c:7 p:k"), Some(Push::Gap { key: Arc::from("k"), token: Token(7) }));
    }

    #[test]
    fn what_is_not_for_us_is_ignored() {
        let wire = Wire::new("p:".into(), "c".into(), &Tuning::default());
        for text in ["", "g", "x 1", "g 5 4 0 dl1:other:7 p:k", "g 5 4 0 dl1:c:7 k", "g a 4 0 dl1:c:7 p:k"] {
            assert_eq!(parse(&wire, text), None, "{text}");
        }
    }
}
