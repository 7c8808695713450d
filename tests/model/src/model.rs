//! The model for `stateright`: the possible next events, and the properties that must hold in every state.

use stateright::{Model, Property};

use crate::{
    bounds::{Bounds, Crashes, Faults, TTL},
    process::{Phase, Process, Speed},
    server::{Gap, Push, Server, Tick, Token, Value},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub now: Tick,
    pub server: Server,
    pub processes: Vec<Process>,
    /// The faults and other events that may still happen.
    pub faults: Faults,
    pub cancels: u8,
    pub extensions: u8,
    pub gaps: u8,
    pub plain: u8,
    /// The observations of the judge.
    pub judge: Judge,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Judge {
    /// The fencing token of the latest section.
    pub last_fence: u8,
    /// A section began with a token that is not newer.
    pub fence_fell: bool,
    /// Only the first process may enter before this time.
    pub kept_until: Tick,
    pub entered_too_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Tick,
    Begin(usize),
    Cancel(usize),
    Release(usize, Gap),
    Extend(usize),
    Fire(usize),
    /// The server executes the next command of a connection, and replies.
    Request(usize),
    Reply(usize),
    /// The server executes a command of a broken connection.
    LateRequest(usize),
    Push(usize, usize),
    LosePush(usize, usize),
    /// The push arrives, and will arrive again.
    DoublePush(usize, usize),
    DelayRequests(usize),
    DelayReplies(usize),
    DelayPush(usize, usize),
    BreakLink(usize),
    Connect(usize),
    Crash(usize),
    PlainTakes,
    PlainReleases,
}

impl Bounds {
    fn may_crash(&self, state: &State, at: usize) -> bool {
        let chosen = match self.crashes {
            Crashes::OfAnybody => true,
            Crashes::OfWaitersAtFirst => {
                let phase = state.processes[at].phase;
                state.now == 0 && matches!(phase, Phase::Waiting(attempt) if attempt.pair.is_some())
            }
        };
        chosen && state.faults.crashes > 0
    }

    fn must_let_go(&self, state: &State) -> bool {
        state.processes.iter().any(|process| match process.phase {
            Phase::Held(hold) => {
                process.is_alive && state.now >= hold.since.saturating_add(self.longest_hold)
            }
            _ => false,
        })
    }

    /// The events that happen immediately, in a fixed order: messages that are not slow arrive, and timers fire. This
    /// reduces the orders to explore. It leaves out only orders with more slow messages than allowed.
    fn urgent(&self, state: &State, at: usize, actions: &mut Vec<Action>) {
        let (process, faults) = (&state.processes[at], &state.faults);
        let slow = faults.slow > 0;
        if !process.is_alive {
            return;
        }
        if let Some(push) = process.pushes.iter().position(|&(_, speed)| speed == Speed::Fast) {
            actions.push(Action::Push(at, push));
            push_if(slow, Action::DelayPush(at, push), actions);
            push_if(faults.lost_pushes > 0, Action::LosePush(at, push), actions);
            push_if(faults.doubled_pushes > 0, Action::DoublePush(at, push), actions);
        } else if !process.link.replies.is_empty() && !process.link.replies_are_slow {
            actions.push(Action::Reply(at));
            push_if(slow, Action::DelayReplies(at), actions);
        } else if !process.link.requests.is_empty() && !process.link.requests_are_slow {
            actions.push(Action::Request(at));
            push_if(slow, Action::DelayRequests(at), actions);
        } else if process.is_due(state.now) {
            actions.push(Action::Fire(at));
        }
        if !actions.is_empty() {
            push_if(faults.breaks > 0 && process.link.is_up, Action::BreakLink(at), actions);
            push_if(self.may_crash(state, at), Action::Crash(at), actions);
        }
    }

    fn actions_of(&self, state: &State, at: usize, actions: &mut Vec<Action>) {
        let (process, faults) = (&state.processes[at], &state.faults);
        push_if(!process.link.late.is_empty(), Action::LateRequest(at), actions);
        if !process.is_alive {
            return;
        }
        match process.phase {
            Phase::Idle if process.wanted > 0 && process.link.is_up => actions.push(Action::Begin(at)),
            Phase::Waiting(_) if state.cancels > 0 => actions.push(Action::Cancel(at)),
            Phase::Held(_) => {
                actions.push(Action::Release(at, Gap::NotDue));
                push_if(state.gaps > 0, Action::Release(at, Gap::Due), actions);
                push_if(state.extensions > 0 && process.link.is_up, Action::Extend(at), actions);
            }
            _ => {}
        }
        // In this case, all messages are slow.
        push_if(!process.link.requests.is_empty(), Action::Request(at), actions);
        push_if(!process.link.replies.is_empty(), Action::Reply(at), actions);
        for push in 0..process.pushes.len() {
            actions.push(Action::Push(at, push));
            push_if(faults.lost_pushes > 0, Action::LosePush(at, push), actions);
            push_if(faults.doubled_pushes > 0, Action::DoublePush(at, push), actions);
        }
        push_if(!process.link.is_up, Action::Connect(at), actions);
        push_if(process.link.is_up && faults.breaks > 0, Action::BreakLink(at), actions);
        push_if(self.may_crash(state, at), Action::Crash(at), actions);
    }

    fn pass_time(&self, state: &mut State) {
        state.now += 1;
        state.server.expire(state.now);
        for process in state.processes.iter_mut() {
            process.settle(state.now);
            if process.is_alive {
                process.notice_loss(self, state.now);
            }
        }
    }

    fn request(&self, state: &mut State, at: usize) {
        let link = &mut state.processes[at].link;
        let packet = link.requests.remove(0);
        link.requests_are_slow = false;
        let mut pushes = Vec::new();
        let reply = state.server.apply(self, state.now, packet.command, &mut pushes);
        state.processes[at].link.replies.push((packet, reply));
        deliver(state, pushes);
    }

    fn act(&self, state: &mut State, action: Action) {
        let now = state.now;
        match action {
            Action::Tick => self.pass_time(state),
            Action::Begin(at) => state.processes[at].begin(self, now),
            Action::Cancel(at) => {
                state.cancels -= 1;
                state.processes[at].cancel(now);
            }
            Action::Release(at, gap) => {
                state.gaps -= u8::from(gap == Gap::Due);
                state.processes[at].release(self, now, gap);
            }
            Action::Extend(at) => {
                state.extensions -= 1;
                state.processes[at].extend(now);
            }
            Action::Fire(at) => state.processes[at].fire(self, now),
            Action::Request(at) => self.request(state, at),
            Action::Reply(at) => {
                let (packet, reply) = state.processes[at].link.replies.remove(0);
                state.processes[at].link.replies_are_slow = false;
                state.processes[at].hear(self, now, packet, reply);
            }
            Action::LateRequest(at) => {
                let packet = state.processes[at].link.late.remove(0);
                let mut pushes = Vec::new();
                state.server.apply(self, now, packet.command, &mut pushes);
                deliver(state, pushes);
            }
            Action::Push(at, push) => {
                let (push, _) = state.processes[at].pushes.remove(push);
                state.processes[at].told(self, now, push);
            }
            Action::LosePush(at, push) => {
                state.faults.lost_pushes -= 1;
                state.processes[at].pushes.remove(push);
            }
            Action::DoublePush(at, push) => {
                state.faults.doubled_pushes -= 1;
                let (push, speed) = &mut state.processes[at].pushes[push];
                *speed = Speed::Slow;
                let push = *push;
                state.processes[at].told(self, now, push);
            }
            Action::DelayRequests(at) => {
                state.faults.slow -= 1;
                state.processes[at].link.requests_are_slow = true;
            }
            Action::DelayReplies(at) => {
                state.faults.slow -= 1;
                state.processes[at].link.replies_are_slow = true;
            }
            Action::DelayPush(at, push) => {
                state.faults.slow -= 1;
                state.processes[at].pushes[push].1 = Speed::Slow;
            }
            Action::BreakLink(at) => {
                state.faults.breaks -= 1;
                state.processes[at].lose_link(self, now);
            }
            Action::Connect(at) => state.processes[at].connect(self, now),
            Action::Crash(at) => {
                state.faults.crashes -= 1;
                crash(&mut state.processes[at], now);
            }
            Action::PlainTakes => {
                state.plain -= 1;
                state.server.lock = Some((Value::Plain, now + TTL));
            }
            Action::PlainReleases => state.server.lock = None,
        }
    }
}

/// Delivers pushes to live processes, in any order.
fn deliver(state: &mut State, pushes: Vec<Push>) {
    for push in pushes {
        let process = &mut state.processes[usize::from(push.token().process)];
        if process.is_alive {
            process.pushes.push((push, Speed::Fast));
        }
    }
}

fn crash(process: &mut Process, now: Tick) {
    process.is_alive = false;
    process.phase = Phase::Idle;
    process.pushes.clear();
    process.pending.clear();
    process.link.breaks(now);
}

fn push_if(condition: bool, action: Action, actions: &mut Vec<Action>) {
    if condition {
        actions.push(action);
    }
}

impl State {
    /// Judges sections that have just begun.
    fn judge(&mut self, before: &State) {
        for (process, was) in self.processes.iter().zip(&before.processes) {
            let Phase::Held(hold) = process.phase else { continue };
            let is_new = match was.phase {
                Phase::Held(old) => (old.token, old.fence, old.left) != (hold.token, hold.fence, hold.left),
                _ => true,
            };
            if !is_new {
                continue;
            }
            self.judge.fence_fell |= hold.fence <= self.judge.last_fence;
            self.judge.last_fence = self.judge.last_fence.max(hold.fence);
            self.judge.entered_too_early |= process.number != 0 && self.now < self.judge.kept_until;
            self.judge.kept_until = self.judge.kept_until.max(hold.keep_until);
        }
        if self.judge.kept_until <= self.now {
            self.judge.kept_until = 0;
        }
    }

    fn holders(&self) -> usize {
        let plain = self.server.lock.is_some_and(|(value, _)| value == Value::Plain);
        self.processes.iter().filter(|process| process.believes(self.now)).count() + usize::from(plain)
    }

    /// Whether the process still knows a token, or an event in flight will remind it.
    fn is_known(&self, token: Token) -> bool {
        let process = &self.processes[usize::from(token.process)];
        let link = &process.link;
        let wanted = match process.phase {
            Phase::Idle => false,
            Phase::Waiting(attempt) => attempt.token == token,
            Phase::Held(hold) => hold.token == token,
        };
        wanted
            || !process.is_alive
            || !link.is_up
            || link.requests.iter().any(|packet| packet.command.token() == token)
            || link.replies.iter().any(|(packet, _)| packet.command.token() == token)
            || process.pushes.iter().any(|(push, _)| push.token() == token)
            || process.pending.iter().any(|&(other, ..)| other == token)
    }

    fn has_orphan(&self) -> bool {
        matches!(self.server.lock, Some((Value::Holder(token), _)) if !self.is_known(token))
    }

    /// Whether a live process has a place in the queue without a waiter.
    fn has_empty_place(&self) -> bool {
        self.server.queue.iter().any(|entry| {
            let process = &self.processes[usize::from(entry.token.process)];
            let held = matches!(process.phase, Phase::Held(hold) if hold.token == entry.token);
            entry.until > self.now && (held && process.link.late.is_empty() || !self.is_known(entry.token))
        })
    }

    fn longest_wait(&self) -> Tick {
        let waits = self.processes.iter().filter(|process| process.is_alive);
        waits
            .filter_map(|process| match process.phase {
                Phase::Waiting(attempt) => Some(self.now - attempt.since),
                _ => None,
            })
            .max()
            .unwrap_or(0)
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process = |(number, &wanted): (usize, &u8)| {
            let locals = if number == 0 { self.locals } else { 0 };
            Process::new(u8::try_from(number).unwrap_or(u8::MAX), wanted, locals)
        };
        vec![State {
            now: 0,
            server: Server::default(),
            processes: self.processes.iter().enumerate().map(process).collect(),
            faults: self.faults,
            cancels: self.cancels,
            extensions: self.extensions,
            gaps: self.gaps,
            plain: self.plain,
            judge: Judge::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for at in 0..state.processes.len() {
            self.urgent(state, at, actions);
            if !actions.is_empty() {
                return;
            }
        }
        for at in 0..state.processes.len() {
            self.actions_of(state, at, actions);
        }
        if state.plain > 0 && state.server.lock.is_none() {
            actions.push(Action::PlainTakes);
        }
        if state.server.lock.is_some_and(|(value, _)| value == Value::Plain) {
            actions.push(Action::PlainReleases);
        }
        if state.now < self.last_tick && !self.must_let_go(state) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.act(&mut state, action);
        state.judge(before);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one believes to hold the lock", |_, state: &State| {
                state.holders() <= 1
            }),
            Property::always("fencing tokens rise from section to section", |_, state: &State| {
                !state.judge.fence_fell
            }),
            Property::always("a section that has ended stays ended", |_, state: &State| {
                state.processes.iter().all(|process| !process.revived)
            }),
            Property::always("nobody enters within a min_hold", |_, state: &State| {
                !state.judge.entered_too_early
            }),
            Property::always("no lock is left that nobody knows of", |_, state: &State| !state.has_orphan()),
            Property::always("no place in the queue is left that nobody stands on", |_, state: &State| {
                !state.has_empty_place()
            }),
            Property::always("a loss is reported only if there was one", |_, state: &State| {
                state.processes.iter().all(|process| !process.reported_loss)
            }),
            Property::always("nobody waits for too long", |bounds: &Bounds, state: &State| {
                // In a world that tests how dead waiters are skipped, one must be dead.
                let judged = bounds.crashes == Crashes::OfAnybody || state.faults.crashes == 0;
                !judged || state.longest_wait() <= bounds.longest_wait
            }),
            Property::sometimes("somebody holds the lock", |_, state: &State| state.holders() > 0),
        ]
    }
}
