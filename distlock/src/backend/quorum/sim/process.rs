//! A process that takes locks through a council of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::config::{Config, MILLI, SECOND};
use super::network::Link;
use super::world::{Event, World};
use crate::backend::quorum::council::{Council, Effect, Now};
use crate::backend::{EnterMode, Kind, LinkEvent, Op, OpResult, Push, Remaining, Reply, ServerTime, Token};
use crate::clock::{Time, lease_end};
use crate::engine::sim::clocks::LocalClock;

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
    /// Nobody wants anything any more.
    Close,
    LeaveAgain {
        key: usize,
        token: Token,
        until: Time,
    },
}

/// What a round is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Ask { key: usize, token: Token, sent: Time, queues: bool },
    Renew { key: usize, token: Token, sent: Time },
    Leave { key: usize, token: Token, until: Time },
}

/// One token on its way to the lock, or with it.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    token: Token,
    since: u64,
    once: bool,
    fences: u32,
    asked: bool,
    /// When to ask again, and the number of that plan.
    plan: (u64, u32),
    /// Until when it is ours, and which round made it so.
    held: Option<(Time, u64)>,
}

pub(super) struct Process {
    pub(super) name: Arc<str>,
    pub(super) life: u32,
    pub(super) clock: LocalClock,
    pub(super) council: Council,
    pub(super) links: Vec<Link>,
    index: usize,
    /// Microseconds.
    wall: u64,
    up: bool,
    attempts: Vec<Option<Attempt>>,
    wanted: Vec<u32>,
    owed: Vec<Step>,
    purposes: HashMap<u64, Purpose>,
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
            council: Council::new(names, Duration::from_millis(cfg.ttl), rng.u64(..)),
            links: (0..cfg.servers).map(|_| Link::default()).collect(),
            index,
            wall: 1_790_000_000_000_000 + rng.u64(0..=cfg.skew),
            up: false,
            attempts: vec![None; cfg.keys],
            wanted: vec![0; cfg.keys],
            owed: Vec::new(),
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
}

fn key_name(key: usize) -> Arc<str> {
    format!("k{key}").into()
}

impl World {
    pub(super) fn instant(&self, process: usize) -> Now {
        let process = &self.processes[process];
        Now { time: process.clock.at(self.now), wall: process.wall + self.now / 1_000 }
    }

    pub(super) fn crash(&mut self, index: usize) {
        let life = self.processes[index].life + 1;
        let old = Process::new(&self.cfg, index, life, &mut self.rng);
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
        self.processes[process].council.fire(now);
        self.carry_out(process);
    }

    pub(super) fn carry_out(&mut self, process: usize) {
        loop {
            let effects = self.processes[process].council.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    Effect::Send { node, job, key, op } => self.send(process, node, job, key, op),
                    Effect::Done { round, result } => self.done(process, round, result),
                    Effect::Link(event) => self.link(process, event),
                    Effect::Push(Push::Gap { key, token } | Push::Grant { key, token, .. }) => {
                        let key: usize = key.trim_start_matches('k').parse().unwrap();
                        self.plan_to_ask(process, key, token, 0);
                    }
                    Effect::Look { node } => {
                        if self.nodes[node].up {
                            let (now, origin) = (self.instant(process), self.origin(node));
                            self.processes[process].council.looked(now, node, now.time, &origin);
                        }
                    }
                    Effect::Note { node, note } => {
                        let written = self.nodes[node].up && self.nodes[node].hangs_until <= self.now;
                        if written {
                            self.note_on(node, &note);
                        }
                        self.note(|| format!("process {process}: server {node}: {note:?} {written}"));
                        let now = self.instant(process);
                        self.processes[process].council.noted(now, node, &note, written);
                    }
                }
            }
        }
        self.suspect_hung(process);
        let life = self.processes[process].life;
        if let Some(due) = self.processes[process].council.next_due()
            && self.processes[process].timer != due
        {
            self.processes[process].timer = due;
            let at = self.processes[process].clock.when(due);
            self.at(at, Event::Timer { process, life });
        }
    }

    fn link(&mut self, process: usize, event: LinkEvent) {
        self.note(|| format!("process {process}: {event:?}"));
        match event {
            LinkEvent::Up { .. } => {
                self.processes[process].up = true;
                for step in std::mem::take(&mut self.processes[process].owed) {
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
    fn put(&mut self, process: usize, key: usize, op: Op, purpose: Purpose) -> bool {
        if !self.processes[process].up {
            return false;
        }
        self.note(|| format!("process {process}: k{key}: {op:?}"));
        let now = self.instant(process);
        let round = self.processes[process].council.begin(now, &key_name(key), op);
        self.processes[process].purposes.insert(round, purpose);
        // Its effects are carried out by whoever is at it, or now.
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
            Step::Release { key, token } => {
                if self.attempt(process, key, token).is_some_and(|attempt| attempt.held.is_some()) {
                    self.end(process, key, token);
                }
            }
            Step::Deadline { key, token } => self.deadline(process, key, token),
            Step::Close => {
                for key in 0..self.keys.len() {
                    self.processes[process].wanted[key] = 0;
                    if let Some(Attempt { token, held: None, .. }) = self.processes[process].attempts[key] {
                        self.end(process, key, token);
                    }
                }
            }
            Step::LeaveAgain { key, token, until } => self.leave(process, key, token, until),
        }
        self.carry_out(process);
    }

    fn attempt(&self, process: usize, key: usize, token: Token) -> Option<Attempt> {
        self.processes[process].attempts[key].filter(|attempt| attempt.token == token)
    }

    /// The next one who wants the lock in this process.
    fn next(&mut self, process: usize, key: usize) {
        if self.processes[process].attempts[key].is_some() || self.processes[process].wanted[key] == 0 {
            return;
        }
        let (once, fenced) = (self.chance(self.cfg.once), self.chance(self.cfg.fenced));
        let fences = if fenced { self.rng.u32(1..4) } else { 0 };
        let since = self.now;
        let cancelled = self.chance(self.cfg.cancel);
        let me = &mut self.processes[process];
        me.wanted[key] -= 1;
        me.tokens += 1;
        let token = Token(me.tokens);
        me.attempts[key] =
            Some(Attempt { token, since, once, fences, asked: false, plan: (u64::MAX, 0), held: None });
        if cancelled {
            let at = self.now + self.rng.u64(0..500 * MILLI);
            let life = self.processes[process].life;
            self.at(at, Event::Step { process, life, step: Step::Cancel { key, token } });
        }
        self.ask(process, key, token);
    }

    fn ask(&mut self, process: usize, key: usize, token: Token) {
        let Some(attempt) = self.attempt(process, key, token) else { return };
        if attempt.held.is_some() {
            return;
        }
        let ttl = Duration::from_millis(self.cfg.ttl);
        let sent = self.processes[process].clock.at(self.now);
        let plain = !attempt.asked && attempt.fences == 0 && self.rng.bool();
        let (op, queues) = if plain {
            (Op::Set { token, ttl }, false)
        } else {
            let mode = match (attempt.once, attempt.asked) {
                (true, _) => EnterMode::Try,
                (false, false) => EnterMode::Wait,
                (false, true) => EnterMode::WaitAgain,
            };
            let claim = ttl.min(Duration::from_secs(3));
            let op = Op::Enter { token, kind: Kind::Exclusive, ttl, claim, mode, fences: attempt.fences };
            (op, mode != EnterMode::Try)
        };
        if self.put(process, key, op, Purpose::Ask { key, token, sent, queues })
            && let Some(attempt) = &mut self.processes[process].attempts[key]
        {
            attempt.asked = true;
            attempt.plan = (u64::MAX, attempt.plan.1 + 1);
        }
    }

    /// Asks after a while, if nothing is planned sooner.
    fn plan_to_ask(&mut self, process: usize, key: usize, token: Token, after: u64) {
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
        let sent = self.processes[process].clock.at(self.now);
        let ttl = Duration::from_millis(self.cfg.ttl);
        self.put(
            process,
            key,
            Op::Renew { token, kind: Kind::Exclusive, ttl },
            Purpose::Renew { key, token, sent },
        );
        self.later(process, self.cfg.ttl * MILLI / 3, Step::Renew { key, token });
    }

    fn later(&mut self, process: usize, after: u64, step: Step) {
        let life = self.processes[process].life;
        self.at(self.now + after, Event::Step { process, life, step });
    }

    /// Gives the lock back, or the attempt at it up.
    fn end(&mut self, process: usize, key: usize, token: Token) {
        self.gives_up(process, key, token);
        self.processes[process].attempts[key] = None;
        let until = self.processes[process]
            .clock
            .at(self.now)
            .after(Duration::from_millis(3 * self.cfg.ttl + 10_000));
        self.leave(process, key, token, until);
        self.next(process, key);
    }

    fn leave(&mut self, process: usize, key: usize, token: Token, until: Time) {
        let op = Op::Leave { token, hold: None, since: ServerTime(0) };
        if !self.put(process, key, op, Purpose::Leave { key, token, until }) {
            self.processes[process].owed.push(Step::LeaveAgain { key, token, until });
        }
    }

    fn deadline(&mut self, process: usize, key: usize, token: Token) {
        let Some(Attempt { held: Some((deadline, _)), .. }) = self.attempt(process, key, token) else {
            return;
        };
        if deadline <= self.processes[process].clock.at(self.now) {
            self.stats.lost += 1;
            self.note(|| format!("process {process}: k{key} is lost: {token:?} ran out"));
            self.end(process, key, token);
        } else {
            self.at_deadline(process, key, token, deadline);
        }
    }

    fn at_deadline(&mut self, process: usize, key: usize, token: Token, deadline: Time) {
        let at = self.processes[process].clock.when(deadline);
        let life = self.processes[process].life;
        self.at(at, Event::Step { process, life, step: Step::Deadline { key, token } });
    }

    fn done(&mut self, process: usize, round: u64, result: OpResult) {
        self.note(|| format!("process {process}: round {round}: {result:?}"));
        match self.processes[process].purposes.remove(&round) {
            Some(Purpose::Ask { key, token, sent, queues }) => {
                self.asked(process, round, key, token, sent, queues, result);
            }
            Some(Purpose::Renew { key, token, sent }) => self.renewed(process, key, token, sent, result),
            Some(Purpose::Leave { key, token, until })
                if result.is_err() && self.processes[process].clock.at(self.now) < until =>
            {
                self.later(process, 50 * MILLI, Step::LeaveAgain { key, token, until });
            }
            Some(Purpose::Leave { .. }) | None => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one answer and of its question")]
    fn asked(
        &mut self,
        process: usize,
        round: u64,
        key: usize,
        token: Token,
        sent: Time,
        queues: bool,
        result: OpResult,
    ) {
        let now = self.processes[process].clock.at(self.now);
        let ttl = Duration::from_millis(self.cfg.ttl);
        let Some(attempt) = self.attempt(process, key, token) else {
            let in_vain = match result {
                Ok(Reply::Fresh { .. } | Reply::Mine { .. }) => true,
                Ok(Reply::Busy { .. }) => queues,
                _ => false,
            };
            if in_vain {
                self.leave(process, key, token, now.after(3 * ttl));
            }
            return;
        };
        match (result, attempt.held) {
            (Ok(Reply::Fresh { fence, .. } | Reply::Mine { fence, .. }), None) => {
                let deadline = lease_end(sent, ttl);
                if deadline <= now {
                    self.processes[process].wanted[key] += 1;
                    return self.end(process, key, token);
                }
                self.stats.acquired += 1;
                if let Some(attempt) = &mut self.processes[process].attempts[key] {
                    attempt.held = Some((deadline, round));
                }
                self.note(|| format!("process {process}: k{key} is mine until {deadline:?}"));
                self.believes(process, key, token, deadline, fence.map(|first| (first, attempt.fences)));
                self.at_deadline(process, key, token, deadline);
                let hold = self.rng.u64(0..=self.cfg.longest_hold) * MILLI;
                self.later(process, hold, Step::Release { key, token });
                if self.chance(self.cfg.renews) {
                    self.later(process, self.cfg.ttl * MILLI / 3, Step::Renew { key, token });
                }
            }
            (Ok(Reply::Mine { .. }), Some(_)) => self.extend(process, key, token, lease_end(sent, ttl)),
            // Carried out before the lock was found to be ours.
            (Ok(Reply::Fresh { .. }), Some((_, by))) if round < by => {}
            (Ok(Reply::Fresh { .. }), Some(_)) => self.lose(process, key, token),
            (Ok(Reply::Busy { remaining, .. }), None) => {
                self.stats.busy += 1;
                if attempt.once {
                    self.processes[process].attempts[key] = None;
                    return self.next(process, key);
                }
                if !queues {
                    return self.ask(process, key, token);
                }
                let heartbeat = self.cfg.ttl.min(3_000) * MILLI * 4 / 5;
                let jitter = self.rng.u64(0..50 * MILLI);
                let left = match remaining {
                    Remaining::For(left) => u64::try_from(left.as_nanos()).unwrap_or(u64::MAX),
                    Remaining::Unknown | Remaining::Forever => heartbeat,
                };
                self.plan_to_ask(process, key, token, heartbeat.min(left.saturating_add(jitter)));
            }
            (Err(_), None) => {
                let delay = self.rng.u64(10 * MILLI..100 * MILLI);
                self.plan_to_ask(process, key, token, delay);
            }
            (Ok(other), None) => {
                self.fail(format!("odd: process {process} asked for k{key} and got {other:?}"))
            }
            (_, Some(_)) => {}
        }
    }

    fn renewed(&mut self, process: usize, key: usize, token: Token, sent: Time, result: OpResult) {
        match result {
            Ok(Reply::Renewed { .. }) => {
                self.extend(process, key, token, lease_end(sent, Duration::from_millis(self.cfg.ttl)));
            }
            Ok(Reply::NotYours) => self.lose(process, key, token),
            _ => {}
        }
    }

    fn extend(&mut self, process: usize, key: usize, token: Token, until: Time) {
        let now = self.processes[process].clock.at(self.now);
        if let Some(attempt) = &mut self.processes[process].attempts[key]
            && attempt.token == token
            && let Some((deadline, _)) = &mut attempt.held
            && *deadline > now
        {
            *deadline = until.max(*deadline);
            self.extends(key, token, until);
        }
    }

    fn lose(&mut self, process: usize, key: usize, token: Token) {
        if self.attempt(process, key, token).is_some_and(|attempt| attempt.held.is_some()) {
            self.stats.lost += 1;
            self.note(|| format!("process {process}: k{key} is lost: {token:?} is not ours"));
            if self.rng.bool() {
                return self.end(process, key, token);
            }
            // What a majority does not have need not be given back by whoever had it.
            self.gives_up(process, key, token);
            self.processes[process].attempts[key] = None;
            self.next(process, key);
        }
    }
}
