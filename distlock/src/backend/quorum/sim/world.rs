//! One run: true time, the servers, the judge, and the due events.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use fastrand::Rng;

use super::Stats;
use super::attempts::Step;
use super::config::{Config, MILLI, SECOND};
use super::process::Process;
use crate::backend::memory::server::ModelServer;
use crate::backend::quorum::queue::order;
use crate::backend::{Push, ServerTime, Token, Tuning};
use crate::protocol::Time;
use crate::simulation::clocks::WallClock;
use crate::simulation::{Account, Kernel, Notice};

/// One of the servers.
pub(super) struct Node {
    pub(super) server: ModelServer,
    pub(super) wall: WallClock,
    pub(super) up: bool,
    pub(super) hangs_until: u64,
    pub(super) run: u32,
    pub(super) notes: Notes,
    /// Its clock was set back. Leases there last longer than any process can know.
    pub(super) set_back: bool,
    stepped: bool,
    /// How far its clock has been ahead since its last start, in microseconds.
    ahead: i64,
    /// Its last fault ends at this time.
    pub(super) troubled_until: u64,
    /// It has lost locks, and no process can have noticed it before this time.
    pub(super) unnoticed_until: u64,
    /// It refuses all commands that acquire locks until this time.
    pub(super) refuses_until: u64,
    /// It has lost its data, and no process has repaired that yet.
    pub(super) forgot: bool,
    /// The tokens that it has granted the lock to without a reply to their processes.
    pub(super) unheard: Vec<String>,
}

/// The notes of processes on a server. They are lost with its data.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) counted: Option<String>,
    pub(super) met: Option<(String, ServerTime)>,
    pub(super) longest_ttl: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Break(usize, usize),
    Hang(usize),
    Stop(usize),
    Start(usize),
    Clock(usize, i64),
    Crash(usize),
    Flush(usize),
    Refuse(usize),
    Pause(usize),
    Force(usize),
}

#[derive(Debug)]
pub(super) enum Event {
    Arrive { job: usize },
    Answer { job: usize },
    Notice { process: usize, node: usize, conn: u32 },
    Connect { process: usize, node: usize, life: u32 },
    Push { process: usize, life: u32, node: usize, conn: u32, push: Push },
    Timer { process: usize, life: u32 },
    Step { process: usize, life: u32, step: Step },
    Fault(Fault),
}

/// A process that believes that it holds a key.
#[derive(Clone, Debug)]
pub(super) struct Believer {
    pub(super) process: usize,
    pub(super) token: Token,
    pub(super) until: Time,
    /// True time.
    pub(super) since: u64,
}

#[derive(Debug, Default)]
pub(super) struct KeyWatch {
    pub(super) believers: Vec<Believer>,
    /// The highest fencing token so far.
    pub(super) last_fence: u64,
    pub(super) free_since: u64,
    /// No process may have the key before this time.
    pub(super) closed_until: u64,
    /// The time of its last release by force.
    pub(super) forced: u64,
}

pub(super) struct World {
    pub(super) cfg: Config,
    pub(super) kernel: Kernel<Event>,
    pub(super) nodes: Vec<Node>,
    pub(super) processes: Vec<Process>,
    pub(super) jobs: Vec<super::network::Flight>,
    pub(super) keys: Vec<KeyWatch>,
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

/// After the last request, the judge waits for this long before it searches for locks that were not released.
const AFTER: u64 = 20 * SECOND;

/// The clocks of two servers differ by less than this, in microseconds, unless one of them was set.
const CLOCKS_AGREE: i64 = 900_000;

/// Every server is probed within this time.
const LOOKED_AT: u64 = 12 * SECOND;

impl World {
    pub(super) fn new(cfg: Config, rng: Rng, account: Account) -> World {
        // As on the real servers, there are no gaps, and the reply to a release says whether a process waited.
        let tuning = Tuning {
            poll_gap: Duration::from_millis(1),
            poll_gap_interval: Duration::ZERO,
            ..Tuning::default()
        };
        let node = |_| Node {
            server: ModelServer::new(tuning.clone()),
            wall: WallClock::new(),
            up: true,
            hangs_until: 0,
            run: 0,
            notes: Notes::default(),
            set_back: false,
            stepped: false,
            ahead: 0,
            troubled_until: 0,
            unnoticed_until: 0,
            refuses_until: 0,
            forgot: false,
            unheard: Vec::new(),
        };
        let mut world = World {
            nodes: (0..cfg.servers).map(node).collect(),
            keys: (0..cfg.keys).map(|_| KeyWatch::default()).collect(),
            cfg,
            kernel: Kernel::new(rng, account, SECOND),
            processes: Vec::new(),
            jobs: Vec::new(),
            stats: Stats::default(),
        };
        for index in 0..world.cfg.processes {
            let process = Process::new(&world.cfg, index, 0, &mut world.kernel.rng);
            if world.cfg.ahead {
                let hour = 3_600_000_000 + world.server_time(0).0;
                world.nodes.iter_mut().for_each(|node| node.server.raise_counter(hour));
            }
            world.processes.push(process);
            world.start(index);
        }
        world.plan();
        world
    }

    fn plan(&mut self) {
        for _ in 0..self.cfg.requests {
            let process = self.kernel.rng.usize(0..self.cfg.processes);
            let key = self.kernel.rng.usize(0..self.cfg.keys);
            let at = SECOND + self.kernel.rng.u64(500 * MILLI..500 * MILLI + self.cfg.horizon);
            self.at(at, Event::Step { process, life: u32::MAX, step: Step::Want { key } });
        }
        for process in 0..self.cfg.processes {
            self.at(self.closing(), Event::Step { process, life: u32::MAX, step: Step::Close });
        }
        let mut faults = Vec::new();
        let (servers, minority) = (self.cfg.servers, self.cfg.minority());
        for _ in 0..self.cfg.breaks {
            let process = self.kernel.rng.usize(0..self.cfg.processes);
            faults.push(Fault::Break(process, self.rng.usize(0..servers)));
        }
        for _ in 0..self.cfg.hangs {
            faults.push(Fault::Hang(self.rng.usize(0..servers)));
        }
        for _ in 0..self.cfg.stops {
            // One server keeps its data, because at least one must know that there were locks.
            faults.push(Fault::Stop(self.rng.usize(0..servers - 1)));
        }
        for _ in 0..self.cfg.steps {
            // A process that starts later cannot detect a smaller step.
            let by = match self.rng.i64(-30_000_000..60_000_000) {
                by @ -2_500_000..2_500_000 => by + 5_000_000,
                by => by,
            };
            faults.push(Fault::Clock(self.rng.usize(0..minority), by));
        }
        for _ in 0..self.cfg.crashes {
            faults.push(Fault::Crash(self.kernel.rng.usize(0..self.cfg.processes)));
        }
        for _ in 0..self.cfg.flushes {
            faults.push(Fault::Flush(self.rng.usize(0..servers - 1)));
        }
        for _ in 0..self.cfg.refusals {
            faults.push(Fault::Refuse(self.rng.usize(0..servers)));
        }
        for _ in 0..self.cfg.pauses {
            faults.push(Fault::Pause(self.kernel.rng.usize(0..self.cfg.processes)));
        }
        for _ in 0..self.cfg.force {
            faults.push(Fault::Force(self.kernel.rng.usize(0..self.cfg.keys)));
        }
        let queue = order(&super::process::key_name(0), servers).next().unwrap_or(0);
        for fault in faults {
            let fault = match fault {
                Fault::Break(process, _) if self.cfg.at_queue => Fault::Break(process, queue),
                Fault::Hang(_) if self.cfg.at_queue => Fault::Hang(queue),
                Fault::Stop(_) if self.cfg.at_queue => Fault::Stop(queue),
                Fault::Flush(_) if self.cfg.at_queue => Fault::Flush(queue),
                other => other,
            };
            let at = SECOND + self.kernel.rng.u64(400 * MILLI..500 * MILLI + self.cfg.horizon);
            self.at(at, Event::Fault(fault));
        }
    }

    /// The time of the last request, plus a margin.
    fn closing(&self) -> u64 {
        3 * SECOND + self.cfg.horizon
    }

    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.kernel.at(at, event);
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.kernel.chance(p)
    }

    pub(super) fn run(&mut self) {
        let mut left = 300_000_u32;
        let end = self.closing() + self.cfg.longest_hold * MILLI + AFTER;
        while self.failure.is_none() {
            let Some(event) = self.kernel.next(end) else { break };
            left -= 1;
            if left == 0 {
                self.fail("no end: more events than any run needs".to_owned());
            }
            match self.paused(&event) {
                Some(until) => self.at(until, event),
                None => self.happen(event),
            }
        }
        if self.failure.is_none() {
            self.look_for_residue();
            self.judge_cost();
        }
    }

    /// The end of the pause of the process that this event concerns, if it is paused.
    fn paused(&self, event: &Event) -> Option<u64> {
        let process = match *event {
            Event::Answer { job } => self.jobs[job].process(),
            Event::Notice { process, .. }
            | Event::Connect { process, .. }
            | Event::Push { process, .. }
            | Event::Timer { process, .. }
            | Event::Step { process, .. } => process,
            Event::Arrive { .. } | Event::Fault(_) => return None,
        };
        let until = self.processes[process].asleep_until;
        (until > self.now).then_some(until)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { job } => self.arrive(job),
            Event::Answer { job } => self.answer(job),
            Event::Notice { process, node, conn } => self.notice(process, node, conn),
            Event::Connect { process, node, life } => self.connect(process, node, life),
            Event::Push { process, life, node, conn, push } => {
                self.push_arrives(process, life, node, conn, push);
            }
            Event::Timer { process, life } => self.timer(process, life),
            Event::Step { process, life, step } => self.step(process, life, step),
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.note(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Break(process, node) => self.break_link(process, node),
            // A second hang would change the order of the commands that wait in the socket.
            Fault::Hang(node) if self.nodes[node].hangs_until > self.now => {}
            Fault::Hang(node) => {
                let until = self.kernel.now + self.kernel.rng.u64(MILLI..self.cfg.longest_hang * MILLI);
                self.nodes[node].hangs_until = until;
                self.troubled(node, until);
            }
            Fault::Stop(node) => {
                if !self.nodes[node].up {
                    return;
                }
                self.nodes[node].up = false;
                for process in 0..self.processes.len() {
                    self.break_link(process, node);
                }
                let down = self.rng.u64(5 * MILLI..3 * SECOND);
                self.troubled(node, self.now + down);
                self.at(self.now + down, Event::Fault(Fault::Start(node)));
            }
            Fault::Start(node) => {
                let wiped =
                    self.cfg.wiped && (self.cfg.fenced == 0.0 || self.may_forget(node, Notice::Comes));
                let ahead = self.rng.i64(0..CLOCKS_AGREE);
                let node = &mut self.nodes[node];
                node.wall.step(ahead - std::mem::replace(&mut node.ahead, ahead));
                node.up = true;
                node.run += 1;
                node.server.lose_listeners();
                if wiped {
                    node.server.lose_data();
                    node.notes = Notes::default();
                    node.forgot = true;
                }
            }
            // A process that starts later cannot notice a clock that was set forward and back again.
            Fault::Clock(node, _) if self.nodes[node].stepped && self.cfg.crashes > 0 => {}
            Fault::Clock(node, by) => {
                self.nodes[node].stepped = true;
                self.loses_unnoticed(node);
                self.nodes[node].wall.step(by);
                self.nodes[node].set_back |= by < 0;
            }
            Fault::Crash(process) => self.crash(process),
            Fault::Flush(node) => {
                if self.nodes[node].up && self.may_forget(node, self.cfg.notice) {
                    self.note(|| format!("server {node} forgets"));
                    self.loses_unnoticed(node);
                    let forgetful = &mut self.nodes[node];
                    forgetful.server.lose_data();
                    forgetful.notes = Notes::default();
                    forgetful.forgot = true;
                    if self.cfg.notice == Notice::Comes {
                        (0..self.processes.len()).for_each(|process| self.look_at(process, node));
                    }
                }
            }
            Fault::Refuse(node) => {
                let until = self.now + self.rng.u64(MILLI..2 * SECOND);
                self.nodes[node].refuses_until = until;
                self.troubled(node, until);
            }
            Fault::Pause(process) => {
                let until = self.now + self.rng.u64(MILLI..3 * SECOND);
                self.processes[process].asleep_until = until;
                self.processes[process].troubled_until = until;
            }
            Fault::Force(key) => self.force(key),
        }
    }

    fn troubled(&mut self, node: usize, until: u64) {
        let troubled = &mut self.nodes[node].troubled_until;
        *troubled = until.max(*troubled);
    }

    fn loses_unnoticed(&mut self, node: usize) {
        self.troubled(node, self.now);
        self.nodes[node].unnoticed_until = self.now + LOOKED_AT;
    }

    /// Deletes a lock on every server by force.
    fn force(&mut self, key: usize) {
        let name = super::process::key_name(key);
        for at in 0..self.nodes.len() {
            if !self.nodes[at].up {
                continue;
            }
            let (server_time, mut notes) = (self.server_time(at), Vec::new());
            self.nodes[at].server.force_release(server_time, &name, &mut notes);
            self.tell_about(at, notes);
            self.loses_unnoticed(at);
        }
        let watch = &mut self.keys[key];
        (watch.closed_until, watch.free_since, watch.forced) = (0, self.kernel.now, self.kernel.now);
        watch.believers.clear();
    }

    pub(super) fn server_time(&self, node: usize) -> ServerTime {
        self.nodes[node].wall.at(self.now)
    }
}
