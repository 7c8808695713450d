//! Reading the map: which nodes are asked for their view of the cluster, how many of them, and how often.

use std::sync::Arc;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::map::{View, lacks_host_names, questions};
use crate::backend::redis::config::{Address, RedisConfig};
use crate::backend::redis::errors;
use crate::backend::redis::link::{self, Link};
use crate::backend::redis::probe_interval::{EarlyProbe, WhileLooking};
use crate::backend::redis::stream::{Liveness, Stream};
use crate::backend::{Failure, StoreError};

/// How long the other nodes are awaited after the first one has answered.
const OTHER_VIEWS_WAIT: Duration = Duration::from_millis(100);
/// How often the map is read while no error occurs. A redirection reports a change sooner.
pub(super) const MAP_REFRESH_INTERVAL: Duration = Duration::from_secs(15);
/// While errors occur: how often several nodes are asked instead of one, at first and later.
const SEVERAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The number of nodes that are asked at once.
const MAX_NODES_ASKED: usize = 5;

/// How many nodes are asked for their view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedNodes {
    /// The first node that answers. It may not know the newest changes.
    One,
    /// Several at once. The newest of their views counts, even if it is older than the known one.
    Several,
}

/// When the map is read, and how.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    interval: WhileLooking,
    pub(super) early: EarlyProbe,
    several: Option<Instant>,
    /// The last view was older than the known one.
    pub(super) behind: bool,
    /// Every master is linked.
    pub(super) whole: bool,
}

impl Schedule {
    pub(super) fn scope(&mut self) -> AskedNodes {
        let every = if self.interval.is_quick() || self.behind { SEVERAL.0 } else { SEVERAL.1 };
        let due = self.several.is_none_or(|last| last.elapsed() >= every);
        if due && (self.behind || !self.whole) {
            self.several = Some(Instant::now());
            return AskedNodes::Several;
        }
        AskedNodes::One
    }

    /// The pause before the next reading.
    pub(super) fn pause(&mut self) -> Duration {
        if self.whole && !self.behind {
            self.interval.found();
            return MAP_REFRESH_INTERVAL;
        }
        self.interval.next()
    }
}

/// A node and the link to it.
pub(super) type Linked = (Address, Arc<Link>);

/// Reads the view of one of these nodes, or the newest view of several. `None`: no node answers.
pub(super) async fn read(
    config: &RedisConfig,
    mut linked: Vec<Linked>,
    scope: AskedNodes,
) -> Option<(View, AskedNodes)> {
    fastrand::shuffle(&mut linked);
    linked.truncate(MAX_NODES_ASKED);
    if scope == AskedNodes::One {
        for node in linked {
            if let Some(view) = ask(config, node).await {
                return Some((view, scope));
            }
        }
        return None;
    }
    let mut asked: JoinSet<_> = linked.into_iter().map(|node| ask(config, node)).collect();
    let mut newest = None;
    while let Some(view) = asked.join_next().await {
        newest = newer(newest, view.ok().flatten());
    }
    newest.map(|view| (view, scope))
}

fn ask(config: &RedisConfig, (address, link): Linked) -> impl Future<Output = Option<View>> + Send + use<> {
    let (time_limit, map) = (config.op_timeout, config.address_map.clone());
    async move {
        let replies = timeout(time_limit, link.request_all(&questions())).await.ok()?.ok()?;
        View::read(&address, &replies, map.as_ref())
    }
}

/// Asks, over new connections, nodes that any earlier view has named.
pub(super) async fn read_anew(config: &RedisConfig, mut named: Vec<Address>) -> Result<View, StoreError> {
    fastrand::shuffle(&mut named);
    named.truncate(MAX_NODES_ASKED);
    let mut asked = JoinSet::new();
    for address in named {
        let config = config.clone();
        asked.spawn(async move {
            let place = address.to_string();
            let attempt = timeout(config.connect_timeout, ask_once(&config, &address)).await;
            attempt.unwrap_or_else(|_| {
                let text =
                    format!("cannot connect to {place}: no answer within {:?}", config.connect_timeout);
                Err(errors::found(Failure::NotSent, text))
            })
        });
    }
    let (mut newest, mut cause) = (None, None);
    while let Some(view) = asked.join_next().await {
        match view {
            Ok(Ok(view)) => {
                newest = newer(newest, Some(view));
                // The other nodes get as much time as a connection may take.
                if !asked.is_empty() {
                    let rest = async {
                        while let Some(view) = asked.join_next().await {
                            newest = newer(newest.take(), view.ok().and_then(Result::ok));
                        }
                    };
                    drop(timeout(OTHER_VIEWS_WAIT, rest).await);
                    break;
                }
            }
            // A refusal is more informative than silence.
            Ok(Err(error)) if cause.is_none() || error.kind == Failure::Refused => cause = Some(error),
            Ok(Err(_)) | Err(_) => {}
        }
    }
    newest.ok_or_else(|| {
        cause
            .unwrap_or_else(|| errors::found(Failure::NotSent, format!("cannot connect to {}", config.place)))
    })
}

fn newer(one: Option<View>, other: Option<View>) -> Option<View> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.epoch > one.epoch { other } else { one }),
        (one, other) => one.or(other),
    }
}

async fn ask_once(config: &RedisConfig, address: &Address) -> Result<View, StoreError> {
    let place = address.to_string();
    let unconnected = |error| errors::unconnected(&place, config.login.source(), error);
    let stream = Stream::connect(address, &config.tls, Arc::new(Liveness::default())).await;
    let stream = stream.map_err(|error| unconnected(error.into()))?;
    let (mut connection, _driver) =
        link::start(&config.login, stream, AsyncConnectionConfig::new()).await.map_err(unconnected)?;
    let replies = connection.send_packed_commands(&questions(), 0, 2).await.map_err(unconnected)?;
    if let Some(redis::Value::ServerError(error)) = replies.first() {
        if error.details().is_some_and(|details| details.contains("cluster support disabled")) {
            let text = format!("the server at {place} is not part of a cluster: connect with `redis://`");
            return Err(errors::found(Failure::Refused, text));
        }
        return Err(errors::replied(error.clone()));
    }
    View::read(address, &replies, config.address_map.as_ref()).ok_or_else(|| {
        if lacks_host_names(&replies) {
            let text = format!(
                "the cluster at {place} does not report where its nodes are: set `cluster-announce-hostname` on each \
                 of them, or `cluster-preferred-endpoint-type ip`"
            );
            return errors::found(Failure::Refused, text);
        }
        let text = format!("the cluster at {place} serves no slots yet");
        errors::found(Failure::NotSent, text)
    })
}
