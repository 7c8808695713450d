//! Keeps the command link and the push connection, and reports to the engine.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;

use super::ServerShared;
use crate::backend::redis::command::Wire;
use crate::backend::redis::config::{Address, RedisConfig, ServerLocation};
use crate::backend::redis::endpoint::{Connects, Endpoint, EndpointState};
use crate::backend::redis::errors;
use crate::backend::redis::handshake::Role;
use crate::backend::redis::push::{self, Listener};
use crate::backend::redis::supervisor::{self, Connected, LinkOwner};
use crate::backend::{Events, Failure, LinkEvent, Notifications, Push, StoreError};
use crate::observe::{Notice, notice};

/// How long the first `Up` waits for the push connection, which is made at the same time.
const FIRST_PUSH_LINK_WAIT: Duration = Duration::from_millis(250);
/// The longest pause between two attempts to connect.
const LONGEST_CONNECT_PAUSE: Duration = Duration::from_secs(1);
/// The same while another server may take over at any time.
const LONGEST_FAILOVER_PAUSE: Duration = Duration::from_millis(150);

/// The state of [`Backend::run`], and the receiver of its reports.
struct Supervisor {
    shared: Arc<ServerShared>,
    events: Arc<dyn Events>,
}

impl Deref for Supervisor {
    type Target = ServerShared;

    fn deref(&self) -> &ServerShared {
        &self.shared
    }
}

impl Supervisor {
    /// While there is no link, nothing is reported. The next `Up` reports it.
    fn report(&self, before: Notifications) {
        let state = self.state.lock();
        let (up, now) = (state.up, state.pushes());
        drop(state);
        if up && now != before {
            self.events.link(LinkEvent::Notifications(now));
        }
    }
}

impl Connects for Supervisor {
    fn config(&self) -> &RedisConfig {
        &self.config
    }

    fn wire(&self) -> &Arc<Wire> {
        &self.exec.wire
    }

    fn place(&self) -> String {
        self.config.place.to_string()
    }

    async fn wanted(&self) {
        // Fails only without a sender, which is a field of `shared`.
        drop(self.wanted.subscribe().wait_for(|wanted| *wanted).await);
    }
}

impl LinkOwner for Supervisor {
    fn role(&self) -> Role {
        if self.config.member { Role::Member } else { Role::Master }
    }

    fn longest_pause(&self) -> Duration {
        if self.sentinels.is_some() { LONGEST_FAILOVER_PAUSE } else { LONGEST_CONNECT_PAUSE }
    }

    async fn locate(&self) -> Result<Address, StoreError> {
        match (&self.config.place, &self.sentinels) {
            (ServerLocation::Fixed(address), _) => Ok(address.clone()),
            (ServerLocation::Sentinel(_), Some(sentinels)) => sentinels.locate().await,
            (ServerLocation::Sentinel(_) | ServerLocation::Cluster(_) | ServerLocation::Shards(_), _) => {
                Err(errors::found(Failure::Refused, "this is not the place of one server"))
            }
        }
    }

    async fn demoted(&self, address: &Address) -> StoreError {
        match &self.sentinels {
            Some(sentinels) => sentinels.demoted(address).await,
            None => std::future::pending().await,
        }
    }

    async fn up(&self, found: &Connected) {
        if let Some(sentinels) = &self.sentinels {
            sentinels.found();
        }
        self.wait_for_pushes(FIRST_PUSH_LINK_WAIT).await;
        let pushes = self.offer(Arc::clone(&found.link), &found.address, &found.server);
        self.events.link(LinkEvent::Up { earlier: found.earlier, pushes });
    }

    fn introduction(&self) -> Option<Cmd> {
        self.events.who().map(|who| self.exec.wire.introduce(&who))
    }

    fn down(&self, cause: StoreError) {
        self.ended();
        self.events.link(LinkEvent::Down { cause });
    }

    fn ended(&self) {
        *self.link.lock() = None;
        self.state.lock().up = false;
    }
}

impl Listener for Supervisor {
    async fn locate(&self) -> Result<Address, StoreError> {
        match self.endpoint() {
            Some(at) => Ok(at.address),
            None => LinkOwner::locate(self).await,
        }
    }

    fn subscribed(&self, at: Endpoint) {
        let before = self.state.lock().pushes();
        let mut state = self.state.lock();
        state.subscribed = true;
        state.push_at = Some(at);
        state.push_is_older = false;
        let split = state.split();
        drop(state);
        self.report(before);
        if split {
            self.moved.notify_one();
        }
        self.tried.send_replace(true);
    }

    fn unsubscribed(&self) {
        let before = self.state.lock().pushes();
        self.state.lock().subscribed = false;
        self.report(before);
        self.tried.send_replace(true);
    }

    async fn moved(&self) {
        loop {
            self.moved.notified().await;
            // The notification may be older than this connection.
            if self.state.lock().split() {
                return;
            }
        }
    }

    fn push(&self, push: Push, _from: Option<&str>) {
        if self.replicas.is_none() || !matches!(push, Push::Grant { .. }) {
            return self.events.push(push);
        }
        // Without a link the push would be ignored.
        let Some(link) = self.link() else { return };
        let (shared, events) = (Arc::clone(&self.shared), Arc::clone(&self.events));
        tokio::spawn(async move {
            if let Some(replicas) = &shared.replicas {
                match replicas.confirm(&link).await {
                    Ok(()) => events.push(push),
                    Err(error) => notice(Notice::GrantNotConfirmed { error: &error }),
                }
            }
        });
    }
}

pub(super) async fn run(shared: Arc<ServerShared>, events: Arc<dyn Events>) {
    // After a panic of an earlier call, its connections have ended.
    *shared.state.lock() = EndpointState::default();
    shared.tried.send_replace(false);
    let supervisor = Arc::new(Supervisor { shared, events });
    let ask = async {
        if let Some(sentinels) = supervisor.sentinels.clone() {
            supervisor.wanted().await;
            sentinels.watch().await;
        }
    };
    let confirm = async {
        if let Some(replicas) = &supervisor.replicas {
            let wire = &supervisor.exec.wire;
            let mark = wire.names.mark(&wire.client).to_string();
            replicas.serve(&supervisor.config, &mark, || supervisor.endpoint()).await;
        }
    };
    let (keep, listen) = (Arc::clone(&supervisor), Arc::clone(&supervisor));
    tokio::join!(supervisor::supervise(keep), push::listen(listen), ask, confirm);
}
