//! Keeps a command link alive: connects, watches, replaces, for ever.

use std::sync::Arc;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Pipeline, RedisError, Value};
use tokio::time::{sleep, timeout};

use super::super::{Events, Failure, LinkEvent, OpError};
use super::backoff::Backoff;
use super::errors;
use super::greet::{Identity, Server, greet};
use super::link::{self, Driver, Link};
use super::standalone::Shared;
use super::stream::{Pulse, Stream};
use super::trace;

/// While requests are under way: silence that raises suspicion.
const TICK: Duration = Duration::from_millis(250);
/// While there are none: how often a link is asked for a sign of life.
const IDLE: Duration = Duration::from_secs(5);
/// How long the first `Up` waits for the push connection, which is made at the same time.
const TOGETHER: Duration = Duration::from_millis(250);
/// A link that lived this long was a good one: the next attempt is made at once.
const GOOD: Duration = Duration::from_secs(1);

/// Links of the past whose commands might still be applied.
#[derive(Debug, Default)]
struct Former {
    links: Vec<(Option<Identity>, Option<String>)>,
}

pub(super) async fn keep(shared: Arc<Shared>, events: Arc<dyn Events>) {
    let _clear = ClearOnDrop(&shared);
    let mut former = Former::default();
    let mut backoff = Backoff::default();
    let mut warned = false;
    shared.wanted().await;
    loop {
        match connect(&shared, &mut former).await {
            Ok(Connected { link, driver, server, settled }) => {
                if let (Some(policy), false) = (&server.evicts, warned) {
                    warned = true;
                    trace::warn(&format!(
                        "{}: maxmemory-policy `{policy}` may evict locks while they are held: \
                         use `noeviction`, or give locks a server of their own",
                        shared.config.address
                    ));
                }
                former.links.push((server.identity.clone(), server.run_id.clone()));
                shared.wait_for_pushes(TOGETHER).await;
                let since = tokio::time::Instant::now();
                let pushes = shared.up(Arc::clone(&link), &server);
                events.link(LinkEvent::Up { settled, pushes });
                let cause = watch(&link, driver, shared.config.op_timeout).await;
                shared.down();
                trace::debug(&format!("{}: link lost: {cause}", shared.config.address));
                events.link(LinkEvent::Down { cause });
                if since.elapsed() >= GOOD {
                    backoff = Backoff::default();
                    continue;
                }
            }
            Err(cause) => {
                trace::debug(&cause.to_string());
                events.link(LinkEvent::Down { cause });
            }
        }
        sleep(backoff.next()).await;
    }
}

/// There is no link once nobody keeps it.
struct ClearOnDrop<'a>(&'a Shared);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.down();
    }
}

struct Connected {
    link: Arc<Link>,
    driver: Driver,
    server: Server,
    settled: bool,
}

async fn connect(shared: &Shared, former: &mut Former) -> Result<Connected, OpError> {
    let config = &shared.config;
    let place = config.address.to_string();
    let attempt = async {
        let pulse = Arc::new(Pulse::default());
        let (connection, driver) = async {
            let stream = Stream::connect(&config.address, Arc::clone(&pulse)).await?;
            link::start(&config.login, stream, AsyncConnectionConfig::new()).await
        }
        .await
        .map_err(|error| errors::unconnected(&place, error))?;
        let link = Arc::new(Link::new(connection, pulse));
        let greeting = async {
            let server = greet(&link, &config.client).await?;
            let settled = settle(&link, former, &server).await?;
            Ok((server, settled))
        };
        let (server, settled) = greeting.await.map_err(|error: OpError| match error.kind {
            // No operation was among what got no answer.
            Failure::Unknown => OpError { kind: Failure::NotSent, ..error },
            _ => error,
        })?;
        Ok(Connected { link, driver, server, settled })
    };
    timeout(config.connect_timeout, attempt).await.unwrap_or_else(|_| {
        let text = format!("cannot connect to {place}: no answer within {:?}", config.connect_timeout);
        Err(errors::found(Failure::NotSent, text))
    })
}

/// Makes sure that nothing sent on an earlier link can be applied any more. False if that is not known.
async fn settle(link: &Link, former: &mut Former, server: &Server) -> Result<bool, OpError> {
    // A server that was started anew knows nothing of earlier connections.
    former
        .links
        .retain(|(_, run_id)| run_id.is_none() || server.run_id.is_none() || *run_id == server.run_id);
    if former.links.is_empty() {
        return Ok(true);
    }
    let mut settled = true;
    let mut pipeline = Pipeline::new();
    for (identity, _) in &former.links {
        match identity {
            Some(Identity { id, address }) => {
                pipeline.cmd("CLIENT").arg("KILL").arg("ID").arg(id).arg("ADDR").arg(address);
            }
            None => settled = false,
        }
    }
    if !pipeline.is_empty() {
        let replies = link.request_all(&pipeline).await.map_err(errors::unanswered)?;
        // The number of connections killed; none if it was gone already.
        settled &= replies.iter().all(|reply| matches!(reply, Value::Int(_)));
    }
    former.links.clear();
    Ok(settled)
}

/// Returns why the link is no good any more, after everything under way on it has been failed.
async fn watch(link: &Link, mut driver: Driver, patience: Duration) -> OpError {
    let cause = tokio::select! {
        _ = &mut driver.0 => errors::found(Failure::Unknown, "the server closed the connection"),
        cause = suspect(link, patience) => {
            // First, so that whatever fails now can tell why.
            link.give_up(cause.clone());
            link.pulse.abandon();
            driver.0.abort();
            // Ended or aborted: either way nothing of it is left.
            drop((&mut driver.0).await);
            cause
        }
    };
    link.fault().cloned().unwrap_or(cause)
}

/// Waits until there is a reason to give the link up.
async fn suspect(link: &Link, patience: Duration) -> OpError {
    let mut heard = link.pulse.heard();
    let mut dozing = false;
    loop {
        let nudged = timeout(if dozing { IDLE } else { TICK }, link.nudge.notified()).await.is_ok();
        if let Some(fault) = link.fault() {
            return fault.clone();
        }
        let now = link.pulse.heard();
        if nudged || now != heard {
            // Alive, or asked only just now.
            heard = now;
            dozing = !nudged && link.in_flight() == 0 && link.doze();
            continue;
        }
        if !dozing && link.in_flight() == 0 && link.doze() {
            dozing = true;
            continue;
        }
        if let Err(cause) = probe(link, patience).await {
            return cause;
        }
        heard = link.pulse.heard();
    }
}

/// Asks for a sign of life until there is one, or none for too long.
async fn probe(link: &Link, patience: Duration) -> Result<(), OpError> {
    let mut heard = link.pulse.heard();
    let mut ping = std::pin::pin!(link.ping());
    loop {
        match timeout(patience, &mut ping).await {
            // An error reply is a sign of life too; a broken connection is for the driver to report.
            Ok(answer) => return answer.map(drop).or_else(still_there),
            Err(_) => {
                // After a suspension of the whole process the timer is early and the answer is in the socket.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                let now = link.pulse.heard();
                if now == heard {
                    let text = format!("the server did not answer within {patience:?}: connection given up");
                    return Err(errors::found(Failure::Unknown, text));
                }
                heard = now;
            }
        }
    }
}

fn still_there(error: RedisError) -> Result<(), OpError> {
    if error.is_unrecoverable_error() { Err(errors::unanswered(error)) } else { Ok(()) }
}
