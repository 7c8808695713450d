//! Finds the master through the sentinels.
//!
//! Every sentinel is asked over its own permanent connection, once a second. If it publishes events (see
//! sentinel_events.rs), it is asked after five seconds at first, and then less and less often, down to every 15 to 30
//! seconds. All are asked immediately when any of them has an event. During a search for the master, they are asked
//! several times a second, at growing intervals. The answer with the highest configuration epoch counts: that number
//! rises with every fail-over, so a sentinel that has missed the newest one cannot lead us back. Among answers of the
//! same epoch the most frequent one counts. A sentinel that does not reply does not delay the search while another one
//! replies.
//!
//! A demoted master still replies for seconds, and the writes that it confirms are lost. So a link is dropped as soon
//! as any sentinel names another master with a higher epoch, even if the link itself works.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, RedisResult, Value, cmd};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::config::{Address, RedisConfig, SentinelLocation};
use super::errors;
use super::info::text;
use super::link::{self, Driver};
use super::probe_interval::{WhileKnown, WhileLooking};
use super::sentinel_events;
use super::stream::{Liveness, Stream};
use super::tls::Tls;
use crate::backend::{Failure, StoreError};
use distlock_store::kit::connection::AddressMap;

/// Once one sentinel has answered, how long the others are waited for.
const OTHER_SENTINELS_WAIT: Duration = Duration::from_millis(150);

/// The last answer of a sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SentinelReply {
    /// It did not answer, or the answer made no sense.
    Silent(String),
    /// It does not watch a master of this name.
    Unknown,
    Master {
        address: Address,
        epoch: u64,
    },
}

#[derive(Clone, Debug)]
struct Ballot {
    /// How often it was asked.
    rounds: u64,
    reply: SentinelReply,
}

/// The sentinels of one master.
#[derive(Debug)]
pub(super) struct Sentinels {
    place: SentinelLocation,
    tls: Tls,
    map: Option<AddressMap>,
    /// How long a sentinel may take to answer.
    time_limit: Duration,
    /// The same if the connection has to be made first.
    connect_timeout: Duration,
    ballots: watch::Sender<Vec<Ballot>>,
    /// Whether the master is being looked for.
    looking: watch::Sender<bool>,
    /// Signalled whenever a sentinel has events.
    events: watch::Sender<()>,
    /// Which of them publish events.
    telling: Vec<AtomicBool>,
    /// How often a sentinel is asked while the link is good and it publishes no events.
    usual: Duration,
}

impl Sentinels {
    pub(super) fn new(place: SentinelLocation, config: &RedisConfig) -> Sentinels {
        let ballots = vec![
            Ballot { rounds: 0, reply: SentinelReply::Silent("not asked yet".to_owned()) };
            place.sentinels.len()
        ];
        Sentinels {
            telling: place.sentinels.iter().map(|_| AtomicBool::new(false)).collect(),
            place,
            tls: config.tls.clone(),
            map: config.address_map.clone(),
            time_limit: config.op_timeout,
            connect_timeout: config.connect_timeout,
            ballots: watch::Sender::new(ballots),
            looking: watch::Sender::new(true),
            events: watch::Sender::new(()),
            usual: config.sentinels_every,
        }
    }

    /// Asks the sentinels periodically until it is dropped.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut all = JoinSet::new();
        for number in 0..self.place.sentinels.len() {
            all.spawn(Arc::clone(&self).ask_for_ever(number));
            all.spawn(Arc::clone(&self).hear_for_ever(number));
        }
        while all.join_next().await.is_some() {}
    }

    async fn hear_for_ever(self: Arc<Self>, number: usize) {
        let (Some(address), Some(telling)) = (self.place.sentinels.get(number), self.telling.get(number))
        else {
            return;
        };
        let (login, time_limit) = (&self.place.login, self.connect_timeout);
        sentinel_events::listen((address, &self.place.master), login, &self.tls, time_limit, telling, || {
            self.events.send_modify(|()| {});
        })
        .await;
    }

    async fn ask_for_ever(self: Arc<Self>, number: usize) {
        let Some(address) = self.place.sentinels.get(number) else { return };
        let (mut looking, mut events) = (self.looking.subscribe(), self.events.subscribe());
        let mut connection = None;
        let (mut looking_interval, mut known_interval) =
            (WhileLooking::default(), WhileKnown::new(self.usual));
        loop {
            let began = Instant::now();
            events.mark_unchanged();
            let time_limit = if connection.is_some() { self.time_limit } else { self.connect_timeout };
            let answer = timeout(time_limit, self.ask(address, &mut connection)).await;
            let reply = match answer {
                Ok(Ok(reply)) => reply,
                Ok(Err(error)) => {
                    connection = None;
                    SentinelReply::Silent(error.to_string())
                }
                Err(_) => {
                    connection = None;
                    SentinelReply::Silent(format!("no answer within {time_limit:?}"))
                }
            };
            self.ballots.send_modify(|ballots| {
                if let Some(ballot) = ballots.get_mut(number) {
                    ballot.rounds += 1;
                    ballot.reply = reply;
                }
            });
            let hurried = *looking.borrow_and_update();
            let tells = self.telling.get(number).is_some_and(|tells| tells.load(Ordering::SeqCst));
            let pause = if hurried {
                known_interval.changed();
                looking_interval.next()
            } else {
                looking_interval.found();
                if tells { known_interval.next_subscribed() } else { known_interval.next_unsubscribed() }
            };
            tokio::select! {
                () = sleep(pause.saturating_sub(began.elapsed())) => {}
                // The events may be newer than the answer. Fails only without a sender, which is a field of
                // this struct.
                _ = events.changed() => known_interval.changed(),
                // When the master is being looked for, do not wait for the rest of the second.
                _ = looking.wait_for(|now| *now && !hurried) => {}
            }
        }
    }

    async fn ask(
        &self,
        address: &Address,
        connection: &mut Option<(MultiplexedConnection, Driver)>,
    ) -> RedisResult<SentinelReply> {
        let open = match connection {
            Some(open) => open,
            None => {
                let stream = Stream::connect(address, &self.tls, Arc::new(Liveness::default())).await?;
                connection.insert(link::start(&self.place.login, stream, AsyncConnectionConfig::new()).await?)
            }
        };
        let mut pipeline = Pipeline::new();
        pipeline.add_command(sentinel("GET-MASTER-ADDR-BY-NAME", &self.place.master));
        pipeline.add_command(sentinel("MASTER", &self.place.master));
        let replies = open.0.send_packed_commands(&pipeline, 0, 2).await?;
        let [named, details] = replies.as_slice() else { return Err(unexpected()) };
        match named {
            Value::Nil => Ok(SentinelReply::Unknown),
            Value::ServerError(error) => Err(RedisError::from(error.clone())),
            Value::Array(parts) => {
                let (Some(host), Some(port)) = (
                    parts.first().and_then(text),
                    parts.get(1).and_then(text).and_then(|port| port.parse().ok()),
                ) else {
                    return Err(unexpected());
                };
                let address = address.beside(host, port, self.map.as_ref());
                Ok(SentinelReply::Master { address, epoch: epoch(details) })
            }
            _ => Err(unexpected()),
        }
    }

    /// Asks the sentinels again and returns the master that they name.
    pub(super) async fn locate(&self) -> Result<Address, StoreError> {
        let mut ballots = self.ballots.subscribe();
        // An answer in flight may be older than this call.
        let before: Vec<u64> = ballots.borrow().iter().map(|ballot| ballot.rounds).collect();
        self.looking.send_replace(true);
        let asked = |ballots: &[Ballot]| {
            ballots.iter().zip(&before).filter(|(ballot, before)| ballot.rounds > **before).count()
        };
        let named = |ballots: &[Ballot]| {
            let fresh = ballots.iter().zip(&before).filter(|(ballot, before)| ballot.rounds > **before);
            fresh.filter(|(ballot, _)| matches!(ballot.reply, SentinelReply::Master { .. })).count() > 0
        };
        let all = before.len();
        let first = ballots.wait_for(|ballots| named(ballots) || asked(ballots) == all);
        // The rest of the time is for connecting to the master.
        drop(timeout(self.connect_timeout / 3, first).await);
        let most = Instant::now() + OTHER_SENTINELS_WAIT;
        drop(timeout_at(most, ballots.wait_for(|ballots| asked(ballots) == all)).await);
        let ballots = ballots.borrow().clone();
        match elected(&ballots, None) {
            Some(address) => Ok(address.clone()),
            None => Err(self.nobody(&ballots)),
        }
    }

    fn nobody(&self, ballots: &[Ballot]) -> StoreError {
        let master = &self.place.master;
        let mut reasons = Vec::new();
        for (address, ballot) in self.place.sentinels.iter().zip(ballots) {
            match &ballot.reply {
                SentinelReply::Unknown => {
                    let text = format!(
                        "the sentinel at {address} watches no master named `{master}` (yet): correct the URL, \
                         or add the master to the sentinels"
                    );
                    // The operator may configure it at any time.
                    return errors::found(Failure::Later, text);
                }
                SentinelReply::Silent(reason) => reasons.push(format!("{address}: {reason}")),
                SentinelReply::Master { .. } => {}
            }
        }
        let text = format!("no sentinel names the master `{master}` ({})", reasons.join("; "));
        errors::found(Failure::NotSent, text)
    }

    /// The link to `address` works, so the sentinels are asked less often.
    pub(super) fn found(&self) {
        self.looking.send_replace(false);
    }

    /// Returns when the sentinels name another master than the one at `address`.
    pub(super) async fn demoted(&self, address: &Address) -> StoreError {
        let mut ballots = self.ballots.subscribe();
        let is_other =
            |ballots: &Vec<Ballot>| elected(ballots, Some(address)).is_some_and(|now| now != address);
        let text = match ballots.wait_for(is_other).await {
            Ok(ballots) => match elected(&ballots, Some(address)) {
                Some(now) => format!("the sentinels name another master, {now} instead of {address}"),
                None => format!("{address} is no longer the master"),
            },
            Err(_) => "no task asks the sentinels".to_owned(),
        };
        errors::found(Failure::Unknown, text)
    }
}

/// Selects one of the named masters: the one with the highest epoch, then the one that was named most often, then
/// `current`.
fn elected<'a>(ballots: &'a [Ballot], current: Option<&Address>) -> Option<&'a Address> {
    let named = || {
        ballots.iter().filter_map(|ballot| match &ballot.reply {
            SentinelReply::Master { address, epoch } => Some((address, *epoch)),
            SentinelReply::Silent(_) | SentinelReply::Unknown => None,
        })
    };
    let newest = named().map(|(_, epoch)| epoch).max()?;
    let of_newest = || named().filter(|(_, epoch)| *epoch == newest).map(|(address, _)| address);
    of_newest().max_by_key(|address| {
        (of_newest().filter(|other| other == address).count(), Some(*address) == current)
    })
}

fn sentinel(verb: &str, master: &str) -> Cmd {
    let mut command = cmd("SENTINEL");
    command.arg(verb).arg(master);
    command
}

/// The epoch in the reply to SENTINEL MASTER, which lists names and values in turn. 0 if the command is not
/// allowed.
pub(super) fn epoch(details: &Value) -> u64 {
    let value_of = |name: &str| match details {
        Value::Array(fields) => {
            fields.chunks(2).find(|pair| pair.first().and_then(text) == Some(name))?.get(1).and_then(text)
        }
        Value::Map(fields) => {
            fields.iter().find(|(field, _)| text(field) == Some(name)).and_then(|(_, value)| text(value))
        }
        _ => None,
    };
    value_of("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
}

fn unexpected() -> RedisError {
    RedisError::from((redis::ErrorKind::UnexpectedReturnType, "this is not the answer of a sentinel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".to_owned(), port }
    }

    fn ballots(replies: &[(u16, u64)]) -> Vec<Ballot> {
        let reply =
            |&(port, epoch)| Ballot { rounds: 1, reply: SentinelReply::Master { address: at(port), epoch } };
        replies.iter().map(reply).collect()
    }

    #[test]
    fn the_highest_epoch_wins_over_any_majority() {
        assert_eq!(elected(&ballots(&[(1, 4), (1, 4), (2, 5)]), Some(&at(1))), Some(&at(2)));
    }

    #[test]
    fn in_one_epoch_the_majority_wins_and_a_tie_changes_nothing() {
        assert_eq!(elected(&ballots(&[(1, 4), (2, 4), (2, 4)]), Some(&at(1))), Some(&at(2)));
        for current in [1, 2] {
            assert_eq!(elected(&ballots(&[(1, 4), (2, 4)]), Some(&at(current))), Some(&at(current)));
        }
        assert_eq!(elected(&[], None), None);
    }
}
