//! A process that takes locks through a coordinator of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::config::{Config, MILLI, SECOND};
use super::network::Link;
use super::world::{Event, World};
use crate::backend::quorum::coordinator::Coordinator;
use crate::backend::quorum::effect::{Effect, Now, Request, Writing};
use crate::backend::{AcquireMode, Kind, LinkEvent, Push, Token, op};
use crate::protocol::Time;
use crate::simulation::clocks::LocalClock;

/// A process that has seen a key busy so recently queues at once.
const CONTENDED: u64 = 2 * SECOND;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Want {
        key: usize,
    },
    /// Only the latest `number` counts.
    Ask {
        key: usize,
        token: Token,
        number: u32,
    },
    Cancel {
        key: usize,
        token: Token,
    },
    Renew {
        key: usize,
        token: Token,
    },
    Release {
        key: usize,
        token: Token,
    },
    Deadline {
        key: usize,
        token: Token,
    },
    /// Asks for more fencing tokens.
    More {
        key: usize,
        token: Token,
    },
    /// Nobody wants anything any more.
    Close,
    Leave {
        key: usize,
        token: Token,
        until: Time,
        min_until: Option<Time>,
    },
    LeaveAgain {
        key: usize,
        token: Token,
        until: Time,
    },
}

/// What a round is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Ask { key: usize, token: Token, sent: Time, queues: bool },
    Renew { key: usize, token: Token, sent: Time },
    Release { key: usize, token: Token, until: Time, closed: Option<u64> },
}

/// One token on its way to the lock, or with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) token: Token,
    pub(super) since: u64,
    pub(super) once: bool,
    pub(super) fences: u32,
    /// Milliseconds.
    pub(super) ttl: u64,
    pub(super) renews: bool,
    /// Until then nobody else may have it.
    min_until: Option<Time>,
    asked: bool,
    /// When to ask again, and the number of that plan.
    plan: (u64, u32),
    /// Until when it is ours, and which round made it so.
    pub(super) held: Option<(Time, u64)>,
    /// How many got the key before it who wanted it later.
    overtaken: u32,
}

impl Attempt {
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }
}

pub(super) struct Process {
    pub(super) name: Arc<str>,
    pub(super) life: u32,
    pub(super) clock: LocalClock,
    pub(super) coordinator: Coordinator,
    pub(super) links: Vec<Link>,
    pub(super) asleep_until: u64,
    pub(super) troubled_until: u64,
    closed: bool,
    index: usize,
    /// Microseconds.
    wall: u64,
    up: bool,
    pub(super) attempts: Vec<Option<Attempt>>,
    pub(super) wanted: Vec<u32>,
    /// When each key was last seen to be busy.
    pub(super) busy_at: Vec<Option<u64>>,
    pending_releases: Vec<Step>,
    pub(super) purposes: HashMap<u64, Purpose>,
    tokens: u64,
    /// The timer that was set last.
    timer: Time,
}

fn name_of(index: usize, life: u32) -> Arc<str> {
    format!("p{index}.{life}").into()
}

impl Process {
    pub(super) fn new(cfg: &Config, index: usize, life: u32, rng: &mut Rng) -> Process {
        let names = (0..cfg.servers).map(|node| format!("server {node}")).collect();
        let rate = if cfg.drift == 0 { 0 } else { rng.i64(-cfg.drift..=cfg.drift) };
        Process {
            name: name_of(index, life),
            life,
            clock: LocalClock::new(rng.u64(1..SECOND), rate),
            coordinator: Coordinator::new(names, Duration::from_millis(cfg.ttl), rng.u64(..)),
            links: (0..cfg.servers).map(|_| Link::default()).collect(),
            asleep_until: 0,
            troubled_until: 0,
            closed: false,
            index,
            wall: 1_790_000_000_000_000 + rng.u64(0..=cfg.skew),
            up: false,
            attempts: vec![None; cfg.keys],
            wanted: vec![0; cfg.keys],
            busy_at: vec![None; cfg.keys],
            pending_releases: Vec::new(),
            purposes: HashMap::new(),
            tokens: 0,
            timer: Time::MAX,
        }
    }

    pub(super) fn name_in(&self, life: u32) -> Arc<str> {
        name_of(self.index, life)
    }

    pub(super) fn wanted_since(&self, key: usize) -> u64 {
        self.attempts[key].map_or(u64::MAX, |attempt| attempt.since)
    }

    /// Somebody got the key who wants it since then. How many have overtaken the one that wants it here.
    pub(super) fn is_overtaken(&mut self, key: usize, since: u64) -> u32 {
        match &mut self.attempts[key] {
            Some(attempt) if attempt.held.is_none() && attempt.since < since => {
                attempt.overtaken += 1;
                attempt.overtaken
            }
            _ => 0,
        }
    }
}

pub(super) fn key_name(key: usize) -> Arc<str> {
    format!("k{key}").into()
}

impl World {
    pub(super) fn instant(&self, process: usize) -> Now {
        let process = &self.processes[process];
        Now { time: process.clock.at(self.now), wall: process.wall + self.now / 1_000 }
    }

    pub(super) fn crash(&mut self, index: usize) {
        let life = self.processes[index].life + 1;
        let old = Process::new(&self.cfg, index, life, &mut self.kernel.rng);
        let mut old = std::mem::replace(&mut self.processes[index], old);
        for (node, link) in old.links.drain(..).enumerate() {
            // Numbers of connections go on, so that what belonged to the old ones is told from the new.
            self.processes[index].links[node] = Link::after(&link);
            self.nodes[node].server.unsubscribe(&old.name);
        }
        for key in 0..self.keys.len() {
            self.keys[key].believers.retain(|believer| believer.process != index);
        }
        self.start(index);
    }

    pub(super) fn timer(&mut self, process: usize, life: u32) {
        if self.processes[process].life != life {
            return;
        }
        let now = self.instant(process);
        self.processes[process].timer = Time::MAX;
        self.processes[process].coordinator.fire(now);
        self.carry_out(process);
    }

    pub(super) fn carry_out(&mut self, process: usize) {
        loop {
            let effects = self.processes[process].coordinator.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    Effect::Send { node, key, command } => self.send(process, node, key, command),
                    Effect::Done { round, outcome } => self.done(process, round, outcome),
                    Effect::Link(event) => self.link(process, event),
                    Effect::Push(Push::Gap { key, token } | Push::Grant { key, token, .. }) => {
                        let key: usize = key.trim_start_matches('k').parse().unwrap();
                        self.plan_to_ask(process, key, token, 0);
                    }
                    Effect::Push(Push::Wanted { .. }) => {}
                    Effect::Probe { node } => {
                        self.look_at(process, node);
                    }
                    Effect::Note { node, note } => {
                        let written = self.nodes[node].up && self.nodes[node].hangs_until <= self.now;
                        let writing = if written { Writing::Done } else { Writing::Failed };
                        if written {
                            self.note_on(node, &note);
                        }
                        self.note(|| format!("process {process}: server {node}: {note:?} {written}"));
                        let now = self.instant(process);
                        self.processes[process].coordinator.noted(now, node, &note, writing);
                    }
                }
            }
        }
        self.suspect_hung(process);
        let life = self.processes[process].life;
        if let Some(due) = self.processes[process].coordinator.next_due()
            && self.processes[process].timer != due
        {
            self.processes[process].timer = due;
            let at = self.processes[process].clock.when(due);
            self.at(at, Event::Timer { process, life });
        }
    }

    pub(super) fn look_at(&mut self, process: usize, node: usize) {
        if self.nodes[node].up {
            let (now, origin) = (self.instant(process), self.origin(node));
            self.processes[process].coordinator.looked(now, node, now.time, &origin);
        }
    }

    fn link(&mut self, process: usize, event: LinkEvent) {
        self.note(|| format!("process {process}: {event:?}"));
        match event {
            LinkEvent::Up { .. } => {
                self.processes[process].up = true;
                for step in std::mem::take(&mut self.processes[process].pending_releases) {
                    let life = self.processes[process].life;
                    self.at(self.now, Event::Step { process, life, step });
                }
                for key in 0..self.keys.len() {
                    if let Some(attempt) = self.processes[process].attempts[key] {
                        match attempt.held {
                            None => self.ask(process, key, attempt.token),
                            Some(_) => self.renew(process, key, attempt.token),
                        }
                    }
                }
            }
            LinkEvent::Down { .. } => self.processes[process].up = false,
            LinkEvent::Pushes(_) => {}
        }
    }

    /// Puts an operation to the servers, if there is a majority.
    fn put(&mut self, process: usize, key: usize, request: Request, purpose: Purpose) -> bool {
        if !self.processes[process].up {
            return false;
        }
        self.note(|| format!("process {process}: k{key}: {request:?}"));
        let now = self.instant(process);
        let round = self.processes[process].coordinator.begin(now, &key_name(key), request);
        self.processes[process].purposes.insert(round, purpose);
        // Its effects are carried out by the one that is at it, or now.
        true
    }

    pub(super) fn step(&mut self, process: usize, life: u32, step: Step) {
        if life != u32::MAX && self.processes[process].life != life {
            return;
        }
        match step {
            Step::Want { key } => {
                self.processes[process].wanted[key] += 1;
                self.next(process, key);
            }
            Step::Ask { key, token, number } => {
                if self.attempt(process, key, token).is_some_and(|attempt| attempt.plan.1 == number) {
                    self.ask(process, key, token);
                }
            }
            Step::Cancel { key, token } => {
                if self.attempt(process, key, token).is_some_and(|attempt| attempt.held.is_none()) {
                    self.end(process, key, token);
                }
            }
            Step::Renew { key, token } => self.renew(process, key, token),
            Step::More { key, token } => self.ask_for_more(process, key, token),
            Step::Release { key, token } => {
                if self.attempt(process, key, token).is_some_and(|attempt| attempt.held.is_some()) {
                    self.end(process, key, token);
                }
            }
            Step::Deadline { key, token } => self.deadline(process, key, token),
            Step::Close => {
                self.processes[process].closed = true;
                for key in 0..self.keys.len() {
                    self.processes[process].wanted[key] = 0;
                    if let Some(Attempt { token, held: None, .. }) = self.processes[process].attempts[key] {
                        self.end(process, key, token);
                    }
                }
            }
            Step::Leave { key, token, until, min_until } => {
                self.leave(process, key, token, until, min_until);
            }
            Step::LeaveAgain { key, token, until } => self.leave(process, key, token, until, None),
        }
        self.carry_out(process);
    }

    pub(super) fn attempt(&self, process: usize, key: usize, token: Token) -> Option<Attempt> {
        self.processes[process].attempts[key].filter(|attempt| attempt.token == token)
    }

    /// The next one who wants the lock in this process.
    pub(super) fn next(&mut self, process: usize, key: usize) {
        let me = &self.processes[process];
        if me.closed || me.attempts[key].is_some() || me.wanted[key] == 0 {
            return;
        }
        let (once, fenced) = (self.chance(self.cfg.once), self.chance(self.cfg.fenced));
        let fences = if fenced { self.rng.u32(1..4) } else { 0 };
        let since = self.now;
        let cancelled = self.chance(self.cfg.cancel);
        let ttl = if self.rng.bool() { self.cfg.ttl } else { self.cfg.ttl * u64::from(self.cfg.spread) };
        let renews = self.chance(self.cfg.renews);
        let me = &mut self.processes[process];
        me.wanted[key] -= 1;
        me.tokens += 1;
        let token = Token(me.tokens);
        me.attempts[key] = Some(Attempt {
            token,
            since,
            once,
            fences,
            ttl,
            renews,
            min_until: None,
            asked: false,
            plan: (u64::MAX, 0),
            held: None,
            overtaken: 0,
        });
        if cancelled {
            let at = self.now + self.rng.u64(0..500 * MILLI);
            let life = self.processes[process].life;
            self.at(at, Event::Step { process, life, step: Step::Cancel { key, token } });
        }
        self.ask(process, key, token);
    }

    /// A local waiter wants a token, and the block is used up.
    fn ask_for_more(&mut self, process: usize, key: usize, token: Token) {
        let Some(attempt) = self.attempt(process, key, token).filter(|attempt| attempt.held.is_some()) else {
            return;
        };
        let sent = self.processes[process].clock.at(self.now);
        let (ttl, fences) = (attempt.ttl(), attempt.fences);
        let mode = AcquireMode::Wait;
        let op = op::Acquire { token, kind: Kind::Exclusive, ttl, claim: ttl, mode, fences };
        self.put(process, key, Request::Ask(op.into()), Purpose::Ask { key, token, sent, queues: true });
        if self.rng.bool() {
            let after = self.rng.u64(0..20 * MILLI);
            self.later(process, after, Step::More { key, token });
        }
    }

    pub(super) fn ask(&mut self, process: usize, key: usize, token: Token) {
        let Some(attempt) = self.attempt(process, key, token) else { return };
        if attempt.held.is_some() {
            return;
        }
        let ttl = attempt.ttl();
        let sent = self.processes[process].clock.at(self.now);
        let contended = self.processes[process].busy_at[key].is_some_and(|at| self.now - at < CONTENDED);
        let plain = !attempt.asked && attempt.fences == 0 && !contended && self.chance(self.cfg.plain);
        let (op, queues) = if plain {
            (op::Ask::Plain(op::TryAcquire { token, ttl }), false)
        } else {
            let mode = match (attempt.once, attempt.asked) {
                (true, _) => AcquireMode::Try,
                (false, false) => AcquireMode::Wait,
                (false, true) => AcquireMode::WaitAgain,
            };
            let claim = ttl.min(Duration::from_secs(3));
            let op = op::Acquire { token, kind: Kind::Exclusive, ttl, claim, mode, fences: attempt.fences };
            (op::Ask::Full(op), mode != AcquireMode::Try)
        };
        if self.put(process, key, Request::Ask(op), Purpose::Ask { key, token, sent, queues })
            && let Some(attempt) = &mut self.processes[process].attempts[key]
        {
            attempt.asked = true;
            attempt.plan = (u64::MAX, attempt.plan.1 + 1);
            if self.chance(self.cfg.more / 4.0) {
                // The answer is waited for no longer.
                let after = self.rng.u64(0..5 * MILLI);
                self.plan_to_ask(process, key, token, after);
            }
        }
    }

    /// Asks after a while, if nothing is planned sooner.
    pub(super) fn plan_to_ask(&mut self, process: usize, key: usize, token: Token, after: u64) {
        let at = self.now + after;
        if let Some(attempt) = &mut self.processes[process].attempts[key]
            && attempt.token == token
            && at < attempt.plan.0
        {
            attempt.plan = (at, attempt.plan.1 + 1);
            let number = attempt.plan.1;
            self.later(process, after, Step::Ask { key, token, number });
        }
    }

    fn renew(&mut self, process: usize, key: usize, token: Token) {
        let Some(attempt) = self.attempt(process, key, token) else { return };
        if attempt.held.is_none() {
            return;
        }
        if !attempt.renews {
            return;
        }
        let sent = self.processes[process].clock.at(self.now);
        let ttl = attempt.ttl();
        self.put(
            process,
            key,
            Request::Renew(op::Renew { token, kind: Kind::Exclusive, ttl }),
            Purpose::Renew { key, token, sent },
        );
        self.later(process, attempt.ttl * MILLI / 3, Step::Renew { key, token });
    }

    pub(super) fn later(&mut self, process: usize, after: u64, step: Step) {
        let life = self.processes[process].life;
        self.at(self.now + after, Event::Step { process, life, step });
    }

    /// Some are to be kept a while, however soon they are given back.
    pub(super) fn may_be_held_for(&mut self, process: usize, key: usize, token: Token) {
        if !self.chance(self.cfg.min_hold) {
            return;
        }
        let Some(attempt) = self.attempt(process, key, token) else { return };
        let least = Duration::from_millis(self.rng.u64(1..=attempt.ttl));
        let until = self.processes[process].clock.at(self.now).after(least);
        if let Some(attempt) = &mut self.processes[process].attempts[key] {
            attempt.min_until = Some(until);
        }
    }

    /// Gives the lock back, or the attempt at it up.
    pub(super) fn end(&mut self, process: usize, key: usize, token: Token) {
        let min_until = self.attempt(process, key, token).and_then(|attempt| attempt.min_until);
        self.gives_up(process, key, token);
        self.processes[process].attempts[key] = None;
        let until = self.processes[process]
            .clock
            .at(self.now)
            .after(Duration::from_millis(3 * self.cfg.ttl + 10_000));
        if self.chance(self.cfg.overtaken) {
            let after = self.rng.u64(0..3 * MILLI);
            self.later(process, after, Step::Leave { key, token, until, min_until });
        } else {
            self.leave(process, key, token, until, min_until);
        }
        self.next(process, key);
    }

    pub(super) fn leave(
        &mut self,
        process: usize,
        key: usize,
        token: Token,
        until: Time,
        min_until: Option<Time>,
    ) {
        let left = min_until.map(|min| min.duration_since(self.processes[process].clock.at(self.now)));
        let keep_taken_for = left.filter(|left| *left > Duration::from_millis(1));
        let op = op::Release { token, keep_taken_for, handoffs_began: None };
        // Half of it: clocks drift, and the release takes its time.
        let closed = keep_taken_for.map(|time| self.now + u64::try_from(time.as_nanos()).unwrap_or(0) / 2);
        if !self.put(process, key, Request::Release(op), Purpose::Release { key, token, until, closed }) {
            self.processes[process].pending_releases.push(Step::LeaveAgain { key, token, until });
        }
    }

    fn deadline(&mut self, process: usize, key: usize, token: Token) {
        let Some(attempt) = self.attempt(process, key, token) else { return };
        let Some((deadline, _)) = attempt.held else { return };
        if deadline <= self.processes[process].clock.at(self.now) {
            self.stats.lost += 1;
            if attempt.renews {
                self.judge_loss(process, key, token, attempt.ttl);
            }
            self.note(|| format!("process {process}: k{key} is lost: {token:?} ran out"));
            self.end(process, key, token);
        } else {
            self.at_deadline(process, key, token, deadline);
        }
    }

    pub(super) fn at_deadline(&mut self, process: usize, key: usize, token: Token, deadline: Time) {
        let at = self.processes[process].clock.when(deadline);
        let life = self.processes[process].life;
        self.at(at, Event::Step { process, life, step: Step::Deadline { key, token } });
    }
}
