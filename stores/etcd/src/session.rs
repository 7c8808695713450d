//! The session of a process with etcd: one lease. All locks and places of the process depend on it.

use std::time::{Duration, Instant};

use super::errors::LinkError;
use super::link::{Beat, KeepAlive, Member};
use super::transactions::{Epoch, lease_ttl};
use distlock_store::StoreEvents;

/// The maximum time between heartbeats. It limits how long a stopped member stays unnoticed.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

/// The largest number of elections in a row during one attempt to connect.
const MOST_ELECTIONS: u32 = 5;

/// The state that outlives a connection: the lease, and the time for which it certainly lasts.
#[derive(Debug)]
pub(super) struct Session {
    /// The name of its key.
    name: String,
    /// The ttl to request.
    timeout: Duration,
    current: Option<Current>,
    /// The lease of the session that is over, until the server has ended it, too. It may live for longer than this
    /// process counts: a reply was lost, or a new leader has started all leases again.
    former: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    lease: i64,
    /// The end of the session, unless another heartbeat is answered. Before the first one, no lock depends on the
    /// session.
    until: Option<Instant>,
}

impl Session {
    pub(super) fn new(name: String, timeout: Duration) -> Self {
        Session { name, timeout, current: None, former: None }
    }

    /// Continues the session over a new connection, or begins a new one.
    pub(super) async fn resume(&mut self, member: &Member, events: &StoreEvents) -> Result<Epoch, LinkError> {
        if self.current.is_some_and(|current| current.until.is_some_and(|until| Instant::now() >= until)) {
            self.is_lost(events);
        }
        if let Some(Current { lease, .. }) = self.current {
            match member.begin(self.name.clone(), lease).await {
                Err(error) if error.lease_is_gone => self.is_lost(events),
                begun => return begun,
            }
        }
        // No session begins while places of the former one keep other processes waiting.
        if let Some(lease) = self.former {
            match member.revoke(lease).await {
                Err(error) if !error.lease_is_gone => return Err(error),
                _ => self.former = None,
            }
        }
        let lease = member.grant(lease_ttl(self.timeout)).await?;
        self.current = Some(Current { lease, until: None });
        member.begin(self.name.clone(), lease).await
    }

    /// The session has expired by the clock of this process, or the server has ended it. All holders are notified.
    pub(super) fn is_lost(&mut self, events: &StoreEvents) {
        if let Some(Current { lease, .. }) = self.current.take() {
            self.former = Some(lease);
            events.session_lost();
        }
    }

    /// Repeats heartbeats until the leader has answered one.
    pub(super) async fn first_beat(
        &mut self,
        keep_alive: &mut KeepAlive,
        events: &StoreEvents,
    ) -> Result<Duration, LinkError> {
        for _ in 0..MOST_ELECTIONS {
            if let Some(interval) = self.beat(keep_alive, events).await? {
                return Ok(interval);
            }
        }
        Err(LinkError::unknown("etcd elects one leader after the other"))
    }

    /// Sends one heartbeat. Returns the time of the next one. `None`: immediately.
    async fn beat(
        &mut self,
        keep_alive: &mut KeepAlive,
        events: &StoreEvents,
    ) -> Result<Option<Duration>, LinkError> {
        // Taken before the heartbeat is sent, because the session's time is counted from here.
        let (sent, heartbeat) = (Instant::now(), events.heartbeat());
        match keep_alive.beat().await? {
            Beat::Alive(ttl) => {
                heartbeat.answered(ttl);
                if let Some(current) = &mut self.current {
                    current.until = Some(sent + ttl);
                }
                Ok(Some((ttl / 3).min(LONGEST_INTERVAL)))
            }
            Beat::Undecided => Ok(None),
        }
    }

    /// Keeps the session alive until an error occurs.
    pub(super) async fn keep_alive(
        &mut self,
        mut keep_alive: KeepAlive,
        mut interval: Duration,
        events: &StoreEvents,
    ) -> LinkError {
        loop {
            tokio::time::sleep(interval).await;
            match self.first_beat(&mut keep_alive, events).await {
                Ok(next) => interval = next,
                Err(error) => return error,
            }
        }
    }
}
