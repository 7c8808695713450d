//! One run: true time, the due events, and the processes and the server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use fastrand::Rng;

use super::client::{Client, What};
use super::config::{Config, MILLI, SECOND, Use, Uses};
use super::faults::Fault;
use super::foreign::{Poller, PollerStep};
use super::linger::FirstBehind;
use super::oracle::KeyWatch;
use super::refusals::Refusal;
use super::wire::Job;
use super::workload::Request;
use crate::backend::memory::server::ModelServer;
use crate::collection::KeyCollection;
use crate::protocol::{Push, ServerTime, Token};
use crate::simulation::clocks::WallClock;
use crate::simulation::{Account, Kernel};

/// How often the oracle checks everything if no event occurs.
pub(super) const WATCH: u64 = 40 * MILLI;

#[derive(Debug)]
pub(super) enum Event {
    /// A command reaches the server, if it still is to arrive at that time.
    Arrive {
        job: usize,
        at: u64,
    },
    /// An answer reaches the process.
    Received {
        job: usize,
    },
    /// A broken link is noticed.
    Notice {
        client: usize,
        conn: u32,
    },
    Connect {
        client: usize,
        life: u32,
    },
    LinkUp {
        client: usize,
        life: u32,
        conn: u32,
    },
    /// The server closes connections.
    Kill {
        client: usize,
        conns: Vec<u32>,
    },
    PushArrives {
        client: usize,
        subscription: u32,
        push: Push,
    },
    /// The server notices that a subscriber is gone.
    Unsubscribe {
        client: usize,
        name: Arc<str>,
    },
    PushNotice {
        client: usize,
        subscription: u32,
    },
    Subscribe {
        client: usize,
        life: u32,
    },
    /// Something happens in a process. `read` is when it looked at its clock, if that was before.
    Process {
        client: usize,
        life: u32,
        read: Option<u64>,
        what: What,
    },
    Request(usize),
    Poller {
        poller: usize,
        step: PollerStep,
    },
    Fault(Fault),
    /// A grant was made; by now its receiver must have done something about it.
    GrantIsOld {
        key: usize,
        text: Arc<str>,
        client: usize,
        until: u64,
    },
    /// A process has learned that the server's clock went forward, and has had time to act on it.
    RenewalIsDue {
        client: usize,
        life: u32,
        since: u64,
    },
    /// A waiter that knows when a lease may end must have asked again by now.
    AskIsDue {
        key: usize,
        client: usize,
        token: Token,
        asked: u64,
    },
    /// The time of a lease that lingers is over; by now the first waiter must have the lock.
    LingeringIsOver {
        key: usize,
        waiter: FirstBehind,
    },
    Watch,
}

/// Counts of the events of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    pub(super) events: u64,
    pub(super) commands: u64,
    pub(super) acquired: u64,
    pub(super) lost: u64,
    pub(super) busy: u64,
    pub(super) unavailable: u64,
    pub(super) grants: u64,
    pub(super) gaps: u64,
    pub(super) wanted: u64,
    pub(super) foreign: u64,
    pub(super) unknown_pushes: u64,
}

pub(super) struct World {
    pub(super) cfg: Config,
    pub(super) kernel: Kernel<Event>,
    pub(super) server: ModelServer,
    pub(super) wall: WallClock,
    pub(super) server_is_up: bool,
    pub(super) refusal: Option<Refusal>,
    /// Connections that the server has closed.
    pub(super) killed: HashSet<(usize, u32)>,
    pub(super) clients: Vec<Client>,
    pub(super) jobs: Vec<Job>,
    pub(super) requests: Vec<Request>,
    /// Requests for several keys: for each, its requests for one key, in the order of the keys.
    pub(super) groups: Vec<Vec<usize>>,
    pub(super) gatherings: Vec<Arc<KeyCollection>>,
    pub(super) pollers: Vec<Poller>,
    pub(super) keys: Vec<KeyWatch>,
    /// Entries on the server that their process has forgotten: key and text, since when.
    pub(super) orphans: BTreeMap<(usize, Arc<str>), u64>,
    /// The owners that have handed a lock over, and until when the lease lasts. `None`: it was taken over.
    pub(super) tickets: HashMap<Arc<str>, Option<ServerTime>>,
    /// The owners that took a lock over from another one.
    pub(super) replaced: HashSet<Arc<str>>,
    /// What is known of the take-over of a process from a holder.
    pub(super) take_overs: HashMap<(usize, Arc<str>), &'static str>,
    /// Leases after their last renewal, by their owners.
    pub(super) renewed_last: HashSet<Arc<str>>,
    /// The latest fault that the promises do not cover, for all keys.
    pub(super) fault_at: u64,
    /// The latest step of the server's clock.
    pub(super) stepped_at: u64,
    /// Since when all faults and all requests of the run have ended.
    pub(super) quiet_since: Option<u64>,
    pub(super) stats: Stats,
}

impl Deref for World {
    type Target = Kernel<Event>;

    fn deref(&self) -> &Self::Target {
        &self.kernel
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.kernel
    }
}

impl World {
    pub(super) fn new(cfg: Config, mut rng: Rng, account: Account) -> World {
        let mut server = ModelServer::new(cfg.tuning.clone());
        if !cfg.counts {
            server.stop_counting_listeners();
        }
        let mut used_for = || match cfg.uses {
            Uses::All(all) => all,
            Uses::Drawn => Use::draw(&mut rng),
        };
        let keys = (0..cfg.keys).map(|i| KeyWatch::new(format!("k{i}").into(), used_for())).collect();
        let mut world = World {
            cfg,
            kernel: Kernel::new(rng, account, 0),
            server,
            wall: WallClock::new(),
            server_is_up: true,
            refusal: None,
            killed: HashSet::new(),
            clients: Vec::new(),
            jobs: Vec::new(),
            requests: Vec::new(),
            groups: Vec::new(),
            gatherings: Vec::new(),
            pollers: Vec::new(),
            keys,
            orphans: BTreeMap::new(),
            tickets: HashMap::new(),
            replaced: HashSet::new(),
            take_overs: HashMap::new(),
            renewed_last: HashSet::new(),
            fault_at: 0,
            stepped_at: 0,
            quiet_since: None,
            stats: Stats::default(),
        };
        for index in 0..world.cfg.clients {
            world.add_client(index);
        }
        world.plan_requests();
        world.plan_faults();
        world.plan_pollers();
        world.at(SECOND + WATCH, Event::Watch);
        world
    }

    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.kernel.at(at, event);
    }

    pub(super) fn after(&mut self, delay: u64, event: Event) {
        self.kernel.after(delay, event);
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.kernel.chance(p)
    }

    pub(super) fn some(&mut self, most: u64) -> u64 {
        self.kernel.some(most)
    }

    /// Notes a violation. Only the first one counts.
    pub(super) fn fail(&mut self, check: &str, what: impl std::fmt::Display) {
        self.kernel.fail(format!("{check}: {what}"));
    }

    /// Faults and requests end then.
    pub(super) fn horizon(&self) -> u64 {
        SECOND + self.cfg.horizon
    }

    pub(super) fn run(&mut self) {
        while self.failure.is_none() {
            let Some(event) = self.kernel.next(u64::MAX) else { break };
            self.stats.events += 1;
            if self.stats.events > 400_000 {
                self.fail("no end", "more events than any run needs");
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { job, at } => self.arrive(job, at),
            Event::Received { job } => self.received(job),
            Event::Notice { client, conn } => self.notice_break(client, conn),
            Event::Connect { client, life } => self.connect(client, life),
            Event::LinkUp { client, life, conn } => self.link_is_up(client, life, conn),
            Event::Kill { client, conns } => {
                note!(self, "server: connections {conns:?} of process {client} killed");
                self.killed.extend(conns.into_iter().map(|conn| (client, conn)));
            }
            Event::PushArrives { client, subscription, push } => {
                self.push_arrives(client, subscription, push);
            }
            Event::Unsubscribe { client, name } => self.unsubscribe(client, &name),
            Event::PushNotice { client, subscription } => self.notice_deafness(client, subscription),
            Event::Subscribe { client, life } => self.subscribe(client, life),
            Event::Process { client, life, read, what } => self.process(client, life, read, what),
            Event::Request(index) => self.request_is_due(index),
            Event::Poller { poller, step } => self.poller(poller, step),
            Event::Fault(fault) => self.fault(fault),
            Event::GrantIsOld { key, text, client, until } => self.grant_is_old(key, &text, client, until),
            Event::AskIsDue { key, client, token, asked } => self.ask_is_due(key, client, token, asked),
            Event::RenewalIsDue { client, life, since } => self.renewal_is_due(client, life, since),
            Event::LingeringIsOver { key, waiter } => self.lingering_is_over(key, waiter),
            Event::Watch => self.watch(),
        }
    }

    pub(super) fn server_time(&self) -> crate::protocol::ServerTime {
        self.wall.at(self.now)
    }

    /// How long one way takes this time.
    pub(super) fn delay(&mut self) -> u64 {
        let bounds = self.cfg.delay;
        self.between(bounds)
    }
}
