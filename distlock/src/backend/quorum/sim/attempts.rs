//! The attempts of a process for the keys.

use std::time::Duration;

use super::config::{MILLI, SECOND};
use super::process::Process;
use super::world::{Event, World};
use crate::backend::quorum::effect::RoundOp;
use crate::backend::{AcquireMode, LockKind, Token, op};
use crate::engine::Queueing;
use crate::protocol::Time;

/// A process that has seen the key busy within this time queues immediately.
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
    /// From now on, no process requests a lock.
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

/// A request for a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) key: usize,
    pub(super) token: Token,
    pub(super) sent: Time,
    /// Whether a busy server queues the token.
    pub(super) queueing: Queueing,
}

/// The purpose of a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Ask(Question),
    Renew { key: usize, token: Token, sent: Time },
    Release { key: usize, token: Token, until: Time, closed: Option<u64> },
}

/// One token that waits for the lock, or holds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) token: Token,
    pub(super) since: u64,
    pub(super) once: bool,
    pub(super) fences: u32,
    /// Milliseconds.
    pub(super) ttl: u64,
    pub(super) renews: bool,
    /// No other process may have the lock before this time.
    min_until: Option<Time>,
    asked: bool,
    /// When to ask again, and the number of this plan.
    pub(super) plan: (u64, u32),
    /// The end of the lease, and the round that acquired the lock.
    pub(super) held: Option<(Time, u64)>,
    /// How many later requests got the key before it.
    overtaken: u32,
}

impl Attempt {
    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }
}

impl Process {
    pub(super) fn wanted_since(&self, key: usize) -> u64 {
        self.attempts[key].map_or(u64::MAX, |attempt| attempt.since)
    }

    /// A request from time `since` got the key. Returns how many have overtaken the request of this process.
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

impl World {
    pub(super) fn attempt(&self, process: usize, key: usize, token: Token) -> Option<Attempt> {
        self.processes[process].attempts[key].filter(|attempt| attempt.token == token)
    }

    /// Starts the next request of this process for the lock.
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

    /// A local waiter needs a fencing token, and the block is used up.
    pub(super) fn ask_for_more(&mut self, process: usize, key: usize, token: Token) {
        let Some(attempt) = self.attempt(process, key, token).filter(|attempt| attempt.held.is_some()) else {
            return;
        };
        let sent = self.processes[process].clock.at(self.now);
        let (ttl, fences) = (attempt.ttl(), attempt.fences);
        let mode = AcquireMode::Wait;
        let op = op::Acquire { token, kind: LockKind::Exclusive, ttl, claim: ttl, mode, fences };
        self.put(
            process,
            key,
            RoundOp::Ask(op.into()),
            Purpose::Ask(Question { key, token, sent, queueing: Queueing::May }),
        );
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
        let (op, queueing) = if plain {
            (op::Ask::Plain(op::TryAcquire { token, ttl }), Queueing::Never)
        } else {
            let mode = match (attempt.once, attempt.asked) {
                (true, _) => AcquireMode::Try,
                (false, false) => AcquireMode::Wait,
                (false, true) => AcquireMode::WaitAgain,
            };
            let claim = ttl.min(Duration::from_secs(3));
            let op =
                op::Acquire { token, kind: LockKind::Exclusive, ttl, claim, mode, fences: attempt.fences };
            let queueing = if mode == AcquireMode::Try { Queueing::Never } else { Queueing::May };
            (op::Ask::Full(op), queueing)
        };
        if self.put(process, key, RoundOp::Ask(op), Purpose::Ask(Question { key, token, sent, queueing }))
            && let Some(attempt) = &mut self.processes[process].attempts[key]
        {
            attempt.asked = true;
            attempt.plan = (u64::MAX, attempt.plan.1 + 1);
            if self.chance(self.cfg.more / 4.0) {
                // The process no longer waits for the reply.
                let after = self.rng.u64(0..5 * MILLI);
                self.plan_to_ask(process, key, token, after);
            }
        }
    }

    /// Plans to ask after this time, unless an earlier plan exists.
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

    pub(super) fn renew(&mut self, process: usize, key: usize, token: Token) {
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
            RoundOp::Renew(op::Renew { token, kind: LockKind::Exclusive, ttl, last: false }),
            Purpose::Renew { key, token, sent },
        );
        self.later(process, attempt.ttl * MILLI / 3, Step::Renew { key, token });
    }

    /// Some keys stay taken for a while after their release.
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

    /// Releases the lock, or cancels the attempt.
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
        let op = op::Release { token, keep_taken_for, handoffs_began: None, ends: op::Ends::Other };
        // Half of it, because clocks drift and the release takes time.
        let closed = keep_taken_for.map(|time| self.now + u64::try_from(time.as_nanos()).unwrap_or(0) / 2);
        if !self.put(process, key, RoundOp::Release(op), Purpose::Release { key, token, until, closed }) {
            self.processes[process].pending_releases.push(Step::LeaveAgain { key, token, until });
        }
    }

    pub(super) fn deadline(&mut self, process: usize, key: usize, token: Token) {
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
