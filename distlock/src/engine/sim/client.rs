//! A process: an engine, its clock, its connections, and a minimal driver.

use std::collections::HashMap;
use std::sync::Arc;

use super::answers::{failed, short};
use super::config::{Level, MICRO, MILLI, SECOND};
use super::driven::{Driver, Outgoing};
use super::pushes::PushLink;
use super::timers::Looks;
use super::wire::Link;
use super::workload::BodyStep;
use super::world::{Event, World};
use crate::driver::shards::{Effects, Shards};
use crate::engine::{AcquirePurpose, Answer, Command, Context, Effect};
use crate::error::LostReason;
use crate::protocol::{AcquireReply, BatchReply, LinkEvent, Push, PushHint, Time, Token, op};
use crate::simulation::Notice;
use crate::simulation::clocks::LocalClock;
use crate::simulation::tasks::{Alarm, TaskId};
use distlock_store::engine::Step;

/// An event in a process.
#[derive(Debug)]
pub(super) enum What {
    Answer {
        job: usize,
        answer: Answer,
    },
    /// The answers to one command for several keys.
    Answers(Vec<(usize, Answer)>),
    Push(Push),
    Hint(PushHint),
    Link(LinkEvent),
    Timer {
        number: u64,
    },
    Start(usize),
    Cancel(usize),
    Body(usize, BodyStep),
    /// The caller looks at a request that was completed.
    PickUp(usize),
    /// The rest of an answer, whose thread was preempted after it had read the server's time.
    AnswerAfter {
        read: Time,
        stepped: Option<Step>,
        job: usize,
        answer: Answer,
    },
    /// The I/O thread checks when the next timer is due, one shard after the other.
    Look {
        shard: usize,
        due: Option<Time>,
    },
    Send(Vec<(Context, Command)>, Option<usize>),
    SendAcquireAll(Vec<(Context, AcquirePurpose, op::Acquire)>),
    /// A request for several keys continues, or ends: the number of the group.
    GoOn(usize),
    GiveUp(usize),
    /// A task of the driver has slept long enough.
    Alarm(Arc<Alarm>),
    /// A command of the driver is put on the wire, after its thread was preempted between the engine and the wire.
    Put {
        made: Time,
        list: Vec<Outgoing>,
    },
    /// A caller is dropped while it awaits a reply.
    Abort(TaskId),
    Close,
    LoseAll,
}

pub(super) struct Client {
    pub(super) life: u32,
    pub(super) alive: bool,
    pub(super) name: Arc<str>,
    /// The engine, if the world itself executes its effects …
    pub(super) engine: Shards<usize>,
    /// … and the real driver with its own engine, if the driver does.
    pub(super) driver: Option<Driver>,
    pub(super) clock: LocalClock,
    /// Not scheduled before this time.
    pub(super) paused_until: u64,
    pub(super) closed: bool,
    pub(super) timer: u64,
    pub(super) looks: Option<Looks>,
    pub(super) link: Link,
    pub(super) push: PushLink,
    /// Until when its clock was stopped.
    pub(super) stood_still: u64,
    /// When the server executed the command whose reply was handled last.
    pub(super) executed_at: u64,
    /// When each lease was last renewed.
    pub(super) renewed: HashMap<Token, u64>,
    /// The latest event that excuses a delay of this process.
    pub(super) disturbed_at: u64,
    /// Timers that fired at the same time of the clock: (since, how many).
    pub(super) spin: (u64, u32),
    /// Commands in the current tenth of a second.
    burst: (u64, u32),
    /// The server's time was received on this link, so later steps are noticed.
    pub(super) knows_the_time: bool,
    /// It was received before the latest step.
    pub(super) knew_the_time: bool,
    /// A reply that showed the latest step was noticed.
    pub(super) step_seen: bool,
}

impl Client {
    /// True if `token` belongs to an attempt or a lease of this process.
    pub(super) fn knows(&self, key: &Arc<str>, token: Token) -> bool {
        match &self.driver {
            Some(driver) => driver.core().engine.look(key, |machine| machine.knows(key, token)),
            None => self.engine.look(key, |machine| machine.knows(key, token)),
        }
    }

    pub(super) fn pending_releases(&self) -> Vec<(Arc<str>, Token)> {
        match &self.driver {
            Some(driver) => driver.core().engine.pending_releases(),
            None => self.engine.pending_releases(),
        }
    }

    pub(super) fn waiting_here(&self, key: &Arc<str>) -> usize {
        match &self.driver {
            Some(driver) => driver.core().engine.look(key, |machine| machine.waiting(key)),
            None => self.engine.look(key, |machine| machine.waiting(key)),
        }
    }

    /// The number of all remembered items.
    pub(super) fn rest(&self) -> usize {
        match &self.driver {
            Some(driver) => driver.core().engine.rest(),
            None => self.engine.rest(),
        }
    }
}

impl World {
    pub(super) fn add_client(&mut self, index: usize) {
        let client = self.make_client(index, 0);
        self.clients.push(client);
        self.begin_life(index);
    }

    fn make_client(&mut self, index: usize, life: u32) -> Client {
        let name: Arc<str> = format!("c{index}-{life}").into();
        let seed = self.rng.u64(..);
        let rate = match self.cfg.drift {
            0 => 0,
            // The bounds find the most faults.
            most => super::config::pick(&mut self.kernel.rng, &[-most, most, self.kernel.now as i64 % most]),
        };
        Client {
            life,
            alive: true,
            engine: Shards::new(&name, &self.cfg.tuning_of_process(), self.cfg.shards, seed),
            driver: (self.cfg.level == Level::Driver).then(|| Driver::new(&name, &self.cfg, seed)),
            name,
            clock: LocalClock::new(self.rng.u64(SECOND..1_000_000 * SECOND), rate),
            paused_until: 0,
            closed: false,
            timer: 0,
            looks: None,
            link: Link::default(),
            push: PushLink::default(),
            stood_still: 0,
            executed_at: 0,
            renewed: HashMap::new(),
            disturbed_at: self.now,
            spin: (0, 0),
            burst: (0, 0),
            knows_the_time: false,
            knew_the_time: false,
            step_seen: false,
        }
    }

    fn begin_life(&mut self, index: usize) {
        let (life, local) = (self.clients[index].life, self.clients[index].clock.at(self.now));
        self.settle(index, local);
        if self.cfg.pushes {
            let late = self.some(MILLI);
            self.after(late, Event::Subscribe { client: index, life });
        }
        let late = self.some(2 * MILLI);
        self.after(late, Event::Connect { client: index, life });
    }

    /// The process ends, and loses all its state.
    pub(super) fn crash(&mut self, index: usize) {
        if !self.clients[index].alive {
            return;
        }
        note!(self, "process {index}: crash");
        let client = &mut self.clients[index];
        client.alive = false;
        client.driver = None;
        let name = client.name.clone();
        self.holders_of_process_are_gone(index);
        self.break_push(index, Notice::Never);
        self.break_link(index, Notice::Never);
        // The server notices the closed connection at once, or much later if the whole machine has failed.
        let seen_after = if self.rng.bool() { 0 } else { 6 * SECOND };
        self.after(seen_after, Event::Unsubscribe { client: index, name });
        let life = self.clients[index].life;
        for request in &mut self.requests {
            if request.client == index && request.life == Some(life) {
                request.forget();
            }
        }
    }

    pub(super) fn restart(&mut self, index: usize) {
        if self.clients[index].alive {
            return;
        }
        let life = self.clients[index].life + 1;
        let conn = self.clients[index].link.conn;
        let subscription = self.clients[index].push.subscription;
        let mut client = self.make_client(index, life);
        client.link.conn = conn;
        client.push.subscription = subscription;
        note!(self, "process {index}: starts again as {}", client.name);
        self.clients[index] = client;
        self.begin_life(index);
    }

    /// Schedules an event for a process, in its present life.
    pub(super) fn post(&mut self, index: usize, delay: u64, what: What) {
        let life = self.clients[index].life;
        self.after(delay, Event::Process { client: index, life, read: None, what });
    }

    pub(super) fn process(&mut self, index: usize, life: u32, read: Option<u64>, what: What) {
        let now = self.now;
        let client = &self.clients[index];
        if client.life != life || !client.alive {
            return;
        }
        if client.paused_until > now {
            let late = client.paused_until - now + self.rng.u64(0..100 * MICRO);
            self.after(late, Event::Process { client: index, life, read, what });
            return;
        }
        // Changes of the link are reported by one thread, in order.
        let in_order = matches!(what, What::Link(_));
        if read.is_none() && !in_order && self.chance(self.cfg.stale) {
            let late = self.rng.u64(0..3 * MILLI);
            self.after(late, Event::Process { client: index, life, read: Some(now), what });
            return;
        }
        let local = self.clients[index].clock.at(read.unwrap_or(now));
        self.step(index, local, what);
    }

    fn step(&mut self, c: usize, local: Time, what: What) {
        if self.is_driven(c) {
            return self.driven(c, local, what);
        }
        match what {
            What::Answer { job, answer } => self.answer(c, local, job, answer),
            What::Answers(answers) => self.answers(c, local, answers),
            What::SendAcquireAll(batch) => {
                if let Some(effects) = self.send_acquire_all(c, batch) {
                    self.perform(c, effects, None);
                }
            }
            What::GoOn(group) => self.go_on(c, local, group),
            What::GiveUp(group) => self.give_up(c, local, group),
            What::Push(push) => {
                note!(self, "process {c}: push {push:?}");
                self.count_unknown(c, &push);
                let effects = self.clients[c].engine.push(local, &push);
                self.perform(c, effects, None);
            }
            What::Hint(hint) => {
                note!(self, "process {c}: hint {hint:?}");
                let engine = &self.clients[c].engine;
                let ((), effects) = engine.on_key(local, hint.key(), |step| step.on_notice(&hint));
                self.perform(c, effects, None);
            }
            What::Link(event) => {
                note!(self, "process {c}: link {event:?}");
                self.link_changed(c, &event);
                let effects = self.clients[c].engine.link(local, &event);
                self.perform(c, effects, None);
            }
            What::Timer { number } => {
                if number != self.clients[c].timer {
                    return;
                }
                self.count_spin(c);
                let effects =
                    self.clients[c].engine.on_every_machine(|machine, out| machine.timer(local, out));
                self.perform(c, effects, None);
                self.arm(c);
            }
            What::Start(request) => self.start_request(c, local, request),
            What::Cancel(request) => self.cancel_request(c, local, request),
            What::PickUp(request) => self.look(c, local, request),
            What::AnswerAfter { read, stepped, job, answer } => {
                self.answer_after(c, read, stepped, job, answer);
            }
            What::Look { shard, due } => self.look_at_shard(c, shard, due),
            What::Body(request, step) => self.body(c, local, request, step),
            What::Send(list, confirmation) => self.send_all(c, list, confirmation),
            // Steps of the driver.
            What::Alarm(_) | What::Put { .. } | What::Abort(_) => {}
            What::Close => {
                note!(self, "process {c}: shuts down");
                self.clients[c].closed = true;
                let effects = self.clients[c].engine.close(local);
                self.perform(c, effects, None);
            }
            What::LoseAll => {
                let effects =
                    self.clients[c].engine.on_every_key(local, |step| step.lose_all(LostReason::Shutdown));
                self.perform(c, effects, None);
            }
        }
    }

    fn answer(&mut self, c: usize, local: Time, job: usize, answer: Answer) {
        let context = &self.jobs[job].context;
        note!(self, "process {c}: answer to {:?} of {}: {}", job, context.token.0, short(&answer));
        let stepped = self.clients[c].engine.step_seen(local, context, &answer);
        if self.chance(self.cfg.preempt) {
            let late = self.rng.u64(0..3 * MILLI);
            self.post(c, late, What::AnswerAfter { read: local, stepped, job, answer });
        } else {
            self.answer_after(c, local, stepped, job, answer);
        }
    }

    fn answer_after(&mut self, c: usize, local: Time, stepped: Option<Step>, job: usize, answer: Answer) {
        let context = self.jobs[job].context.clone();
        let request = self.jobs[job].confirmation.take();
        self.time_was_received(c, job, &answer);
        self.clients[c].executed_at = self.jobs[job].applied_at;
        let (token, taken_anew) = (context.token, was_free(&answer));
        let (confirmation, effects) = self.clients[c].engine.reply_after(local, stepped, context, answer);
        if let Some(request) = request {
            self.judged(request, &confirmation);
        }
        self.perform(c, effects, None);
        if taken_anew {
            self.check_taken_anew(c, token, self.jobs[job].applied_at);
        }
    }

    fn answers(&mut self, c: usize, local: Time, answers: Vec<(usize, Answer)>) {
        let mut taken_anew = Vec::new();
        let mut all = Vec::new();
        for (job, answer) in answers {
            let context = self.jobs[job].context.clone();
            note!(self, "process {c}: answer to {:?} of {}: {}", job, context.token.0, short(&answer));
            self.time_was_received(c, job, &answer);
            if was_free(&answer) {
                taken_anew.push((context.token, self.jobs[job].applied_at));
            }
            match answer {
                Answer::Acquire(asked, result) => all.push((context, asked, result.map(BatchReply::Tried))),
                Answer::AcquireInBatch(asked, result) => all.push((context, asked, result)),
                Answer::Release(..) | Answer::Renew(..) => {}
            }
        }
        let effects = self.clients[c].engine.on_acquire_all_reply(local, all);
        self.perform(c, effects, None);
        for (token, applied_at) in taken_anew {
            self.check_taken_anew(c, token, applied_at);
        }
    }

    /// Executes effects. `request` awaits the result of its own release or renewal.
    pub(super) fn perform(&mut self, c: usize, effects: Effects<usize>, mut request: Option<usize>) {
        let mut rearm = effects.rearm;
        let mut sends = Vec::new();
        let mut todo = effects.list;
        let preempted = self.chance(self.cfg.preempt);
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::Send(context, command) if preempted => sends.push((context, command)),
                Effect::Send(context, command) => {
                    let awaiting = request.take_if(|request| self.awaits(*request, &context, &command));
                    if let Some(more) = self.send(c, context, command, awaiting) {
                        rearm |= more.rearm;
                        todo.extend(more.list);
                    }
                }
                Effect::SendAcquireAll(batch) if preempted => {
                    let late = self.rng.u64(0..3 * MILLI);
                    self.post(c, late, What::SendAcquireAll(batch));
                }
                Effect::SendAcquireAll(batch) => {
                    if let Some(more) = self.send_acquire_all(c, batch) {
                        rearm |= more.rearm;
                        todo.extend(more.list);
                    }
                }
                Effect::Done(request, outcome) => self.done(c, request, outcome),
                Effect::Lost(cell, reason) => self.lost(c, &cell, reason),
                Effect::NotTaken { .. } | Effect::Renewed { .. } | Effect::Queued { .. } => {}
            }
        }
        if !sends.is_empty() {
            let late = self.rng.u64(0..3 * MILLI);
            self.post(c, late, What::Send(sends, request));
        }
        if rearm {
            self.arm(c);
        }
    }

    fn send_all(&mut self, c: usize, list: Vec<(Context, Command)>, mut request: Option<usize>) {
        for (context, command) in list {
            let awaiting = request.take_if(|request| self.awaits(*request, &context, &command));
            if let Some(effects) = self.send(c, context, command, awaiting) {
                self.perform(c, effects, None);
            }
        }
    }

    /// The command is the one whose confirmation a request awaits.
    fn awaits(&self, request: usize, context: &Context, command: &Command) -> bool {
        let request = &self.requests[request];
        let token = match command {
            Command::Acquire(..) | Command::Replace(..) => None,
            Command::Release(..) => request.left_with,
            Command::Renew(..) => request.cell().map(|cell| cell.token),
        };
        token == Some(context.token)
    }

    /// There is no link: the engine notices at once, and may return more effects.
    pub(super) fn not_sent(
        &mut self,
        c: usize,
        context: Context,
        command: Command,
        request: Option<usize>,
    ) -> Option<Effects<usize>> {
        let local = self.clients[c].clock.at(self.now);
        let answer = failed(&command, crate::protocol::Failure::NotSent);
        let (confirmation, effects) = self.clients[c].engine.reply(local, context, answer);
        if let Some(request) = request {
            self.judged(request, &confirmation);
        }
        Some(effects)
    }

    pub(super) fn count_command(&mut self, c: usize) {
        let now = self.now;
        self.stats.commands += 1;
        let most = 60 + 40 * u32::try_from(self.cfg.requests).unwrap_or(100);
        let client = &mut self.clients[c];
        if now - client.burst.0 > 100 * MILLI {
            client.burst = (now, 0);
        }
        client.burst.1 += 1;
        if client.burst.1 > most {
            self.fail("hot loop", format!("process {c} sends commands without end"));
        }
    }

    pub(super) fn count_unknown(&mut self, c: usize, push: &Push) {
        if let Push::Grant { key, token, .. } = push
            && !self.clients[c].knows(key, *token)
        {
            self.stats.unknown_pushes += 1;
        }
    }

    pub(super) fn is_able(&self, c: usize) -> bool {
        let client = &self.clients[c];
        let reachable = client.link.works() && client.push.is_known();
        client.alive && client.paused_until <= self.now && reachable && self.serves()
    }
}

/// The lock was found free, and is ours.
pub(super) fn was_free(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Acquire(_, Ok(AcquireReply::Acquired { .. }))
            | Answer::AcquireInBatch(_, Ok(BatchReply::Tried(AcquireReply::Acquired { .. })))
    )
}
