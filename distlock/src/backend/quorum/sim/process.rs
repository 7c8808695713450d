//! A process that acquires locks through its own coordinator: its life, and the effects of its coordinator.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::attempts::{Attempt, Purpose, Step};
use super::config::{Config, SECOND};
use super::network::Link;
use super::world::{Event, World};
use crate::backend::quorum::coordinator::Coordinator;
use crate::backend::quorum::effect::{Effect, Now, RoundOp, Writing};
use crate::backend::{LinkEvent, Push};
use crate::protocol::Time;
use crate::simulation::clocks::LocalClock;

pub(super) struct Process {
    pub(super) name: Arc<str>,
    pub(super) life: u32,
    pub(super) clock: LocalClock,
    pub(super) coordinator: Coordinator,
    pub(super) links: Vec<Link>,
    pub(super) asleep_until: u64,
    pub(super) troubled_until: u64,
    pub(super) closed: bool,
    index: usize,
    /// Microseconds.
    wall: u64,
    up: bool,
    pub(super) attempts: Vec<Option<Attempt>>,
    pub(super) wanted: Vec<u32>,
    /// When each key was last seen to be busy.
    pub(super) busy_at: Vec<Option<u64>>,
    pub(super) pending_releases: Vec<Step>,
    pub(super) purposes: HashMap<u64, Purpose>,
    pub(super) tokens: u64,
    /// The latest timer.
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
            // The numbers of connections continue, so that events of old connections are recognised.
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
            LinkEvent::Notifications(_) => {}
        }
    }

    /// Starts an operation on the servers, if there is a majority.
    pub(super) fn put(&mut self, process: usize, key: usize, request: RoundOp, purpose: Purpose) -> bool {
        if !self.processes[process].up {
            return false;
        }
        self.note(|| format!("process {process}: k{key}: {request:?}"));
        let now = self.instant(process);
        let round = self.processes[process].coordinator.begin(now, &key_name(key), request);
        self.processes[process].purposes.insert(round, purpose);
        // The present run of effects executes them, or this call does.
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

    pub(super) fn later(&mut self, process: usize, after: u64, step: Step) {
        let life = self.processes[process].life;
        self.at(self.now + after, Event::Step { process, life, step });
    }
}
