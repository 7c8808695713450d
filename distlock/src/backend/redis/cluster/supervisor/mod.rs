//! Maintains the map, the links and the subscriptions of a cluster, or of independent servers. Reports to the engine.

mod node_link;

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::ClusterShared;
use super::inquire::{self, AskedNodes, MAP_REFRESH_INTERVAL, Schedule};
use super::map::{Map, View};
use super::node::Node;
use super::recent_pushes::RecentPushes;
use crate::backend::redis::config::Address;
use crate::backend::redis::push::{self, Listener};
use crate::backend::redis::{errors, supervisor};
use crate::backend::{
    EarlierCommands, Events, Failure, LinkEvent, Notifications, Push, PushHint, StoreError,
};
use crate::observe::{Notice, notice};
use distlock_store::kit::backoff::Backoff;
use distlock_store::kit::sync::Locked;
use node_link::NodeLink;

/// While nothing is lost, moved slots are reported at most this often.
const SLOT_MOVE_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How long `Up` waits for the push connection: the first `Up`, and the one after a lost link to an independent server.
const FIRST_PUSH_LINK_WAIT: Duration = Duration::from_millis(250);
/// How long the link to a node that no longer serves slots is kept for commands in flight.
const IDLE_NODE_LINK_TTL: Duration = Duration::from_secs(2);

/// The supervisor of a cluster, and the receiver of its reports.
struct Supervisor {
    shared: Arc<ClusterShared>,
    events: Arc<dyn Events>,
    reported: Locked<ReportState>,
    /// Whether the first attempt to subscribe has ended. Every change of the subscriptions sends it again.
    tried: watch::Sender<bool>,
    /// Needed because each push by PUBLISH arrives once from every node of a cluster.
    recent_pushes: Locked<RecentPushes>,
}

/// The state that was reported to the engine, and the changes to report next.
#[derive(Debug)]
struct ReportState {
    up: bool,
    /// Whether a link was made, or a fail-over happened, since the last `Up`.
    unreported: bool,
    /// Covers all links that were made since the last `Up`.
    earlier: EarlierCommands,
    last_up: Option<Instant>,
    pushes: Notifications,
    /// The nodes with a subscription.
    subscribed: HashSet<Address>,
    members: HashSet<Address>,
    /// The epoch of the newest view that was adopted.
    epoch: u64,
}

impl Deref for Supervisor {
    type Target = ClusterShared;

    fn deref(&self) -> &ClusterShared {
        &self.shared
    }
}

pub(super) async fn run(shared: Arc<ClusterShared>, events: Arc<dyn Events>) {
    let reported = ReportState {
        up: false,
        unreported: true,
        earlier: EarlierCommands::Ended,
        last_up: None,
        pushes: Notifications::Off,
        subscribed: HashSet::new(),
        members: HashSet::new(),
        epoch: 0,
    };
    let supervisor = Arc::new(Supervisor {
        shared,
        events,
        reported: Locked::new(reported),
        tried: watch::Sender::new(false),
        recent_pushes: Locked::default(),
    });
    supervisor.begin();
    let _end = EndOnDrop(&supervisor.shared);
    // This fails only without a sender, and the sender is part of `supervisor`.
    drop(supervisor.wanted.subscribe().wait_for(|wanted| *wanted).await);
    tokio::join!(supervisor.discover(), supervisor.govern());
}

/// Ends all links when the supervisor ends.
struct EndOnDrop<'a>(&'a ClusterShared);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        let nodes: Vec<_> = self.0.nodes.lock().values().cloned().collect();
        // The mutex is not held, because this wakes callers.
        nodes.iter().for_each(|node| node.end());
    }
}

impl Supervisor {
    /// Keeps a link to every node, and reports changes to the engine.
    async fn govern(self: &Arc<Self>) {
        let mut keepers = JoinSet::new();
        loop {
            for node in self.nodes.lock().values() {
                if node.keep() {
                    let owner = Arc::new(NodeLink::new(Arc::clone(self), Arc::clone(node)));
                    keepers.spawn(async move {
                        tokio::select! {
                            () = supervisor::supervise(Arc::clone(&owner)) => {}
                            () = push::listen(Arc::clone(&owner)) => {}
                        }
                        Listener::unsubscribed(&*owner);
                    });
                }
            }
            let again = self.report().await;
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep(again) => {}
            }
            while keepers.try_join_next().is_some() {}
        }
    }

    /// Reports changes to the engine, if they are due. Returns when to check again.
    async fn report(&self) -> Duration {
        let map = self.map();
        if !map.is_known() {
            return MAP_REFRESH_INTERVAL;
        }
        let reached = map.nodes.iter().filter(|node| node.link().is_some()).count();
        let decided = map.nodes.iter().all(|node| node.is_decided());
        let (up, unreported, last_up) = {
            let reported = self.reported.lock();
            (reported.up, reported.unreported, reported.last_up)
        };
        if reached == 0 {
            if decided && (up || unreported) {
                let mut causes = map.nodes.iter().filter_map(|node| node.cause()).collect::<Vec<_>>();
                // A refusal is more informative than silence.
                causes.sort_by_key(|cause| cause.kind != Failure::Refused);
                self.report_down(causes.into_iter().next().unwrap_or_else(|| {
                    errors::found(Failure::NotSent, format!("no node of {} is reachable", self.config.place))
                }));
            }
            return MAP_REFRESH_INTERVAL;
        }
        if !up {
            if !decided {
                return MAP_REFRESH_INTERVAL;
            }
            let ready = |tried: &bool| *tried && (self.shards.is_none() || self.hears() == Notifications::On);
            let mut tried = self.tried.subscribe();
            drop(timeout(FIRST_PUSH_LINK_WAIT, tried.wait_for(ready)).await);
            self.report_up();
            return MAP_REFRESH_INTERVAL;
        }
        if unreported {
            self.report_up();
        } else if !self.moved.lock().is_empty() {
            let since = last_up.map_or(SLOT_MOVE_REPORT_INTERVAL, |at| at.elapsed());
            if since < SLOT_MOVE_REPORT_INTERVAL {
                return SLOT_MOVE_REPORT_INTERVAL - since;
            }
            self.report_up();
        }
        MAP_REFRESH_INTERVAL
    }

    fn report_up(&self) {
        let mut reported = self.reported.lock();
        let earlier = std::mem::replace(&mut reported.earlier, EarlierCommands::Ended);
        reported.up = true;
        reported.unreported = false;
        reported.last_up = Some(Instant::now());
        let pushes = self.heard_on(&reported.subscribed);
        reported.pushes = pushes;
        drop(reported);
        self.moved.lock().clear();
        self.events.link(LinkEvent::Up { earlier, pushes });
    }

    /// Whether pushes arrive. On a cluster, one subscription receives the pushes of all nodes. With independent
    /// servers, every linked server needs a subscription.
    fn heard_on(&self, subscribed: &HashSet<Address>) -> Notifications {
        let map = self.map();
        let mut linked = map.nodes.iter().filter(|node| node.link().is_some());
        let all = self.shards.is_none() || linked.all(|node| subscribed.contains(&node.address));
        if all && !subscribed.is_empty() { Notifications::On } else { Notifications::Off }
    }

    fn hears(&self) -> Notifications {
        self.heard_on(&self.reported.lock().subscribed)
    }

    /// Reports whether pushes arrive, if that has changed. While no link is up, the next `Up` reports it.
    fn report_pushes(&self) {
        let mut reported = self.reported.lock();
        let pushes = self.heard_on(&reported.subscribed);
        let is_new = std::mem::replace(&mut reported.pushes, pushes) != pushes;
        let up = reported.up;
        drop(reported);
        if up && is_new {
            self.events.link(LinkEvent::Notifications(pushes));
        }
        self.tried.send_replace(true);
    }

    fn report_down(&self, cause: StoreError) {
        let mut reported = self.reported.lock();
        reported.up = false;
        reported.unreported = false;
        drop(reported);
        self.events.link(LinkEvent::Down { cause });
    }

    /// Keeps the map up to date. The map of independent servers comes from the URL.
    async fn discover(&self) {
        if let Some(shards) = &self.shards {
            loop {
                let map = shards.map(|address| self.node(address));
                self.change_map(|_| map);
                self.refresh.notified().await;
            }
        }
        let mut schedule = Schedule::default();
        let mut backoff = Backoff::default();
        let mut idle: Option<Instant> = None;
        loop {
            match self.read(schedule.scope()).await {
                Ok((view, scope)) => {
                    backoff = Backoff::default();
                    schedule.behind = scope == AskedNodes::One && view.epoch < self.reported.lock().epoch;
                    if !schedule.behind {
                        self.adopt(&view);
                        self.retire(&mut idle);
                    }
                }
                Err(cause) => {
                    notice(Notice::NoMap { cause: &cause });
                    if self.map().nodes.iter().all(|node| node.link().is_none()) {
                        self.report_down(cause);
                    }
                    sleep(backoff.next_pause()).await;
                    continue;
                }
            }
            schedule.whole = self.map().nodes.iter().all(|node| node.link().is_some());
            tokio::select! {
                () = sleep(schedule.pause()) => {}
                () = async {
                    self.refresh.notified().await;
                    sleep(schedule.early.next()).await;
                } => {}
            }
        }
    }

    fn adopt(&self, view: &View) {
        let before = self.map();
        let masters = view.masters();
        let old: HashSet<_> = before.nodes.iter().map(|node| &node.address).collect();
        // A node that was not a master before has replaced one (a fail-over).
        let failed_over = before.is_known() && masters.iter().any(|master| !old.contains(master));
        self.change_map(|_| Map::new(view, |address| self.node(address)));
        let mut reported = self.reported.lock();
        reported.unreported |= failed_over;
        reported.members.clone_from(&view.members);
        reported.epoch = view.epoch;
        drop(reported);
        self.changed.notify_one();
    }

    /// Drops nodes that no longer serve slots, after a delay since the last of them was found.
    fn retire(&self, idle: &mut Option<Instant>) {
        let map = self.map();
        let serves = |node: &Node| map.nodes.iter().any(|other| other.address == node.address);
        let mut nodes = self.nodes.lock();
        if nodes.values().all(|node| serves(node)) {
            *idle = None;
            return;
        }
        if idle.get_or_insert_with(Instant::now).elapsed() < IDLE_NODE_LINK_TTL {
            return;
        }
        *idle = None;
        let is_needed = |node: &Node| serves(node) || node.link().is_some_and(|link| link.in_flight() > 0);
        let retired: Vec<_> = nodes.extract_if(|_, node| !is_needed(node)).collect();
        drop(nodes);
        // The mutex is not held, because this wakes callers.
        retired.iter().for_each(|(_, node)| node.end());
    }

    /// Reads the view of one node, or the newest view of several.
    async fn read(&self, scope: AskedNodes) -> Result<(View, AskedNodes), StoreError> {
        let linked = self
            .nodes
            .lock()
            .values()
            .filter_map(|node| Some((node.address.clone(), node.link()?)))
            .collect();
        if let Some(found) = inquire::read(&self.config, linked, scope).await {
            return Ok(found);
        }
        let mut named = self.seeds.clone();
        named.extend(self.reported.lock().members.iter().filter(|at| !self.seeds.contains(at)).cloned());
        let view = inquire::read_anew(&self.config, named).await?;
        Ok((view, AskedNodes::Several))
    }
}

impl Supervisor {
    fn deliver(&self, push: Push, from: Option<&str>) {
        if self.shards.is_none() && !self.recent_pushes.lock().is_new(&push) {
            return;
        }
        if let Push::Grant { key, token, .. } = &push {
            let slot = self.wire.names.slot(key);
            let owner = self.map().owner(slot).and_then(|node| node.exec.name());
            let stranger = matches!((owner.as_deref(), from), (Some(owner), Some(from)) if owner != from);
            if stranger {
                self.refresh.notify_one();
            }
            let moved = self.moved.lock().contains(&slot);
            if stranger || moved {
                // Until the next `Up`, the engine may have a time of the old node, and must not compare it with this.
                return self.events.notice(PushHint::Unproven { key: Arc::clone(key), token: *token });
            }
        }
        self.events.push(push);
    }
}
