//! Keeps a command link alive: connects, watches the link, and replaces it when it fails. Ends with its
//! owner.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::time::{Instant, sleep, timeout};

use super::config::Address;
use super::endpoint::Connects;
use super::errors;
use super::handshake::{Identity, Manner, Refusals, Role, ServerInfo, Unknown, handshake};
use super::link::{self, Driver, Link};
use super::stream::{Liveness, Stream};
use crate::backend::{EarlierCommands, Failure, StoreError};
use crate::observe::{Notice, notice};
use distlock_store::kit::backoff::Backoff;

/// While requests are in progress: the silence after which the link is probed.
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// While no request is in progress: how often the link is probed.
const IDLE_PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// A link that lasted this long was stable, so the next attempt is immediate.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// Earlier links whose commands may still be applied.
#[derive(Debug, Default)]
struct FormerLinks {
    links: Vec<(Option<Identity>, Option<String>)>,
}

/// The owner of a supervised link. It learns when the link comes up and goes down.
pub(super) trait LinkOwner: Connects {
    /// The required kind of server.
    fn role(&self) -> Role;
    /// The longest pause between two attempts.
    fn longest_pause(&self) -> Duration;
    /// The present address of the server.
    fn locate(&self) -> impl Future<Output = Result<Address, StoreError>> + Send;
    /// Checks what the server says of those that it belongs with.
    fn admit(&self, _link: &Link) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }
    /// Returns when the server at `address` is no longer the right one.
    fn demoted(&self, address: &Address) -> impl Future<Output = StoreError> + Send;
    /// A link is ready. `earlier`: see [`LinkEvent`](crate::backend::LinkEvent).
    fn up(&self, found: &Connected) -> impl Future<Output = ()> + Send;
    /// The record of this process, if this link writes it.
    fn introduction(&self) -> Option<Cmd>;
    /// There is no link, or an attempt to make one has failed.
    fn down(&self, cause: StoreError);
    /// Whether the link is no longer wanted. Asked after it was lost.
    fn retired(&self) -> bool {
        false
    }
    /// The link is no longer supervised.
    fn ended(&self);
}

pub(super) async fn supervise(owner: Arc<impl LinkOwner>) {
    let _end = EndOnDrop(&*owner);
    let mut memory = LinkHistory::default();
    let mut backoff = Backoff::up_to(owner.longest_pause());
    let mut warned = false;
    owner.wanted().await;
    loop {
        match connect(&*owner, &mut memory).await {
            Ok((connected, driver)) => {
                let Connected { address, link, server, .. } = &connected;
                if let (Some(policy), false) = (&server.evicts, warned) {
                    warned = true;
                    notice(Notice::Evicts { server: address, policy });
                }
                memory.former.links.push((server.identity.clone(), server.run_id.clone()));
                let since = Instant::now();
                // First, so that others know of a lock whose it is.
                let (written, ()) = tokio::join!(introduce(&*owner, link), owner.up(&connected));
                let demoted = owner.demoted(address);
                let cause = watch(&*owner, (link, driver), written, demoted).await;
                notice(Notice::LinkLost { server: address, cause: &cause });
                owner.down(cause);
                if since.elapsed() >= STABLE_AFTER {
                    backoff = Backoff::up_to(owner.longest_pause());
                    if !owner.retired() {
                        continue;
                    }
                }
            }
            Err(cause) => {
                notice(Notice::NoLink { cause: &cause });
                owner.down(cause);
            }
        }
        if owner.retired() {
            return;
        }
        sleep(backoff.next_pause()).await;
    }
}

/// Without a supervisor there is no link.
struct EndOnDrop<'a, K: LinkOwner>(&'a K);

impl<K: LinkOwner> Drop for EndOnDrop<'_, K> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// A link, and the facts that its handshake has shown.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) address: Address,
    pub(super) link: Arc<Link>,
    pub(super) server: ServerInfo,
    pub(super) earlier: EarlierCommands,
}

/// The data that is kept from one link to the next.
#[derive(Debug, Default)]
struct LinkHistory {
    former: FormerLinks,
    refusals: Refusals,
}

/// Makes a link. A server that closes the connection during the handshake gets a second, plain handshake:
/// some proxies close on every command that they do not know.
async fn connect(
    owner: &impl LinkOwner,
    memory: &mut LinkHistory,
) -> Result<(Connected, Driver), StoreError> {
    let first = match attempt(owner, memory, Manner::Full).await {
        Ok(connected) => return Ok(connected),
        Err(first) => first,
    };
    if first.closed && owner.role() == Role::Master {
        match attempt(owner, memory, Manner::Plain).await {
            Ok(connected) => {
                let place = owner.place();
                notice(Notice::PlainHandshake { server: &place });
                return Ok(connected);
            }
            // A refusal with a reason is more informative.
            Err(second) if second.cause.kind == Failure::Refused => return Err(second.cause),
            Err(_) => {}
        }
    }
    Err(first.cause)
}

/// The reason why there is no link.
struct AttemptFailure {
    cause: StoreError,
    /// The connection ended during the handshake.
    closed: bool,
}

impl From<StoreError> for AttemptFailure {
    fn from(error: StoreError) -> AttemptFailure {
        let kind = match error.kind {
            // No operation was among the commands without a reply.
            Failure::Unknown => Failure::NotSent,
            kind => kind,
        };
        AttemptFailure { cause: StoreError { kind, ..error }, closed: false }
    }
}

async fn attempt(
    owner: &impl LinkOwner,
    memory: &mut LinkHistory,
    manner: Manner,
) -> Result<(Connected, Driver), AttemptFailure> {
    let config = owner.config();
    let attempt = async {
        let address = owner.locate().await?;
        memory.refusals.begin(&address);
        let place = address.to_string();
        let liveness = Arc::new(Liveness::default());
        let (connection, driver) = async {
            let stream = Stream::connect(&address, &config.tls, Arc::clone(&liveness)).await?;
            link::open(&config.login, stream).await
        }
        .await
        .map_err(|error| errors::unconnected(&place, config.login.source(), error))?;
        let link = Arc::new(Link::new(connection, liveness));
        let how = (owner.role(), manner);
        let handshake_result =
            handshake(&link, owner.wire(), how, config.replicas, &mut memory.refusals).await;
        let server = handshake_result.map_err(|unknown| match unknown {
            Unknown::Closed(error) => AttemptFailure { closed: true, ..errors::unanswered(error).into() },
            Unknown::Unfit(error) => error.into(),
        })?;
        let earlier = kill_former_links(&link, &mut memory.former, &server).await?;
        owner.admit(&link).await?;
        // Not before: if this attempt fails, the next one must find out again whether their commands have ended.
        memory.former.links.clear();
        Ok((Connected { address, link, server, earlier }, driver))
    };
    timeout(config.connect_timeout, attempt).await.unwrap_or_else(|_| {
        let place = owner.place();
        let text = format!("cannot connect to {place}: no answer within {:?}", config.connect_timeout);
        Err(errors::found(Failure::NotSent, text).into())
    })
}

/// Ends the commands that were sent on earlier links, if the server can do that.
async fn kill_former_links(
    link: &Link,
    former: &mut FormerLinks,
    server: &ServerInfo,
) -> Result<EarlierCommands, StoreError> {
    // A restarted server does not know earlier connections.
    former
        .links
        .retain(|(_, run_id)| run_id.is_none() || server.run_id.is_none() || *run_id == server.run_id);
    if former.links.is_empty() {
        return Ok(EarlierCommands::Ended);
    }
    let mut earlier = EarlierCommands::Ended;
    let mut pipeline = Pipeline::new();
    for (identity, _) in &former.links {
        match identity {
            Some(Identity { id, address }) => {
                pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(id).arg("ADDR").arg(address);
            }
            None => earlier = EarlierCommands::MayArrive,
        }
    }
    if !pipeline.is_empty() {
        let replies = link.request_all(&pipeline).await.map_err(errors::unanswered)?;
        // The number of killed connections. Zero if it had already ended.
        if !replies.iter().all(|reply| matches!(reply, Value::Int(_))) {
            earlier = EarlierCommands::MayArrive;
        }
    }
    Ok(earlier)
}

/// Writes the record of this process, if this link writes it. Returns when.
async fn introduce(owner: &impl LinkOwner, link: &Link) -> Option<Instant> {
    let (record, now) = (owner.introduction()?, Instant::now());
    // A link to a silent server is dropped soon after. Any reply counts, because the record is written again.
    drop(timeout(owner.config().op_timeout, link.probe(record)).await);
    Some(now)
}

/// Returns why the link can no longer be used, after everything in progress on it has failed.
async fn watch(
    owner: &impl LinkOwner,
    (link, mut driver): (&Link, Driver),
    written: Option<Instant>,
    demoted: impl Future<Output = StoreError>,
) -> StoreError {
    let reason = async {
        tokio::select! {
            cause = suspect(owner, link, written) => cause,
            cause = demoted => cause,
        }
    };
    let cause = tokio::select! {
        _ = &mut driver.0 => errors::found(Failure::Unknown, "the server closed the connection"),
        cause = reason => {
            // First, so that everything that fails now can report why.
            link.give_up(cause.clone());
            link.liveness.abandon();
            driver.0.abort();
            // Ended or aborted: either way nothing of it is left.
            drop((&mut driver.0).await);
            cause
        }
    };
    link.fault().cloned().unwrap_or(cause)
}

/// Waits until there is a reason to give the link up. The record of this process, when it is due, takes the place of a
/// probe.
async fn suspect(owner: &impl LinkOwner, link: &Link, mut written: Option<Instant>) -> StoreError {
    let time_limit = owner.config().op_timeout;
    let mut heard = link.liveness.heard();
    let mut asleep = false;
    loop {
        let nudged =
            timeout(if asleep { IDLE_PROBE_INTERVAL } else { STALL_CHECK_INTERVAL }, link.nudge.notified())
                .await
                .is_ok();
        if let Some(fault) = link.fault() {
            return fault.clone();
        }
        let is_due = !nudged && written.is_none_or(|at| at.elapsed() >= IDLE_PROBE_INTERVAL);
        let record = if is_due { owner.introduction() } else { None };
        if record.is_some() {
            written = Some(Instant::now());
        }
        let now = link.liveness.heard();
        if nudged || now != heard {
            // It is alive, or the request was sent only now.
            heard = now;
            asleep = !nudged && link.in_flight() == 0 && link.may_sleep();
            if record.is_none() {
                continue;
            }
        } else if !asleep && link.in_flight() == 0 && link.may_sleep() {
            asleep = true;
            if record.is_none() {
                continue;
            }
        }
        if let Err(cause) = probe(link, record, time_limit).await {
            return cause;
        }
        heard = link.liveness.heard();
    }
}

/// Probes until the server replies, or until it has been silent for too long.
async fn probe(link: &Link, record: Option<Cmd>, time_limit: Duration) -> Result<(), StoreError> {
    let mut heard = link.liveness.heard();
    let mut ping = std::pin::pin!(link.probe(record.unwrap_or_else(|| redis::cmd("PING"))));
    loop {
        match timeout(time_limit, &mut ping).await {
            // An error reply also proves that it is alive. The driver reports a broken connection.
            Ok(answer) => return answer.map(drop).or_else(still_there),
            Err(_) => {
                // After a suspend of the whole process the timer fires too early, and the reply is already in
                // the socket.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                let now = link.liveness.heard();
                if now == heard {
                    let text =
                        format!("the server did not answer within {time_limit:?}: the connection was closed");
                    return Err(errors::found(Failure::Unknown, text));
                }
                heard = now;
            }
        }
    }
}

fn still_there(error: RedisError) -> Result<(), StoreError> {
    if error.is_unrecoverable_error() { Err(errors::unanswered(error)) } else { Ok(()) }
}
