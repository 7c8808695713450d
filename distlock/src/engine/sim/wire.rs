//! Connections. A live connection keeps the order of commands and replies. If it breaks, all of them may be lost.

use super::answers::{failed, failure, in_place_of, is_alike, op_of, short};
use super::client::What;
use super::config::{MILLI, SECOND};
use super::driven::Place;
use super::world::{Event, World};
use crate::backend::memory::server::Sender;
use crate::driver::shards::Effects;
use crate::engine::{Answer, Command, Context};
use crate::protocol::op::{self, Ask};
use crate::protocol::{
    AcquireReply, EarlierCommands, Failure, LinkEvent, ReleaseReply, ServerTime, mutated, token_text,
};
use crate::simulation::Notice;
use std::fmt::Debug;
use std::sync::Arc;

/// Shorter than the TCP user timeout, by more than the error of the clocks.
const LATEST_ARRIVAL: u64 = 4_800 * MILLI;

/// The most acquisitions for a token without a reply: one, those that a new link or a push led to, and repetitions
/// until a broken link is noticed.
const MOST_OPEN: usize = 4;

/// How a connection is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Breakage {
    /// Neither commands nor replies arrive.
    Both,
    /// Commands arrive, replies do not.
    Replies,
}

/// The connection for commands.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Numbers a process's connections, over all its lives.
    pub(super) conn: u32,
    /// The process has a connection, as far as it knows.
    pub(super) up: bool,
    pub(super) broken: Option<Breakage>,
    /// When the last command arrives, and the last reply.
    arrival: u64,
    reply: u64,
    /// Commands without an answer.
    open: Vec<usize>,
    /// Connections whose commands may still arrive.
    former: Vec<u32>,
    pub(super) out_of_reach_until: u64,
}

impl Link {
    pub(super) fn works(&self) -> bool {
        self.up && self.broken.is_none()
    }
}

/// A command in flight.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) client: usize,
    pub(super) life: u32,
    pub(super) conn: u32,
    pub(super) context: Context,
    pub(super) command: Command,
    pub(super) arrives: Option<u64>,
    pub(super) answer: Option<Answer>,
    pub(super) applied_at: u64,
    /// When its task notices that it failed with its link.
    pub(super) failed_at: u64,
    /// The request that awaits the confirmation.
    pub(super) confirmation: Option<usize>,
    /// The rest of one command for several keys, in order.
    pub(super) followers: Vec<usize>,
    /// Where the driver waits for the reply.
    pub(super) place: Option<Place>,
}

impl Job {
    /// `from`: the process, its life and its connection.
    fn new(from: (usize, u32, u32), context: Context, command: Command) -> Job {
        let (client, life, conn) = from;
        Job {
            client,
            life,
            conn,
            context,
            command,
            arrives: None,
            answer: None,
            applied_at: 0,
            failed_at: 0,
            confirmation: None,
            followers: Vec::new(),
            place: None,
        }
    }

    /// Part of the same command, for another key.
    pub(super) fn follower(&self, context: Context, command: Command) -> Job {
        Job::new((self.client, self.life, self.conn), context, command)
    }
}

impl World {
    /// Sends one command, or says at once that there is no link.
    pub(super) fn send(
        &mut self,
        c: usize,
        context: Context,
        command: Command,
        confirmation: Option<usize>,
    ) -> Option<Effects<usize>> {
        if !self.clients[c].link.up {
            note!(self, "process {c}: not sent {:?}", op_of(&command));
            return self.not_sent(c, context, command, confirmation);
        }
        self.count_command(c);
        self.check_open(c, &context, &command);
        self.check_renewal(c, &context, &command);
        self.check_body(c, &context, &command);
        let job = self.jobs.len();
        note!(self, "process {c}: sends {job}: {} {:?}", context.key, op_of(&command));
        let delay = self.delay();
        let is_plain = matches!(command, Command::Acquire(_, Ask::Plain(_)));
        let misplaced = !is_plain && self.chance(self.cfg.misplaced);
        let detour = if misplaced { 2 * self.cfg.delay.1 * 1000 } else { 0 };
        let now = self.now;
        let both_broken = self.clients[c].link.broken == Some(Breakage::Both);
        let arrives = if both_broken {
            self.rng.bool().then(|| now + self.rng.u64(0..LATEST_ARRIVAL))
        } else {
            Some(now + delay)
        };
        let link = &mut self.clients[c].link;
        let arrives = arrives.map(|at| {
            link.arrival = at.max(link.arrival + 1);
            link.arrival + detour
        });
        link.open.push(job);
        let (conn, life) = (link.conn, self.clients[c].life);
        let sent = Job::new((c, life, conn), context, command);
        self.jobs.push(Job { arrives, confirmation, ..sent });
        if let Some(at) = arrives {
            self.at(at, Event::Arrive { job, at });
        }
        None
    }

    /// The acquisitions of a process that have no answer.
    pub(super) fn open_acquisitions(&self, c: usize) -> impl Iterator<Item = &Job> {
        self.clients[c].link.open.iter().map(|job| &self.jobs[*job]).filter(|job| acquires(&job.command))
    }

    /// Checks that the acquisitions for a token do not pile up while the server does not reply.
    fn check_open(&mut self, c: usize, context: &Context, command: &Command) {
        let open = self.open_acquisitions(c).filter(|job| job.context.token == context.token).count();
        if acquires(command) && open > MOST_OPEN {
            self.fail(
                "open commands",
                format!("process {c} asks for {}, and {open} have no reply", context.key),
            );
        }
    }

    /// The event of a command's answer, with the answers of its followers.
    fn with_followers(&self, job: usize, answer: impl Fn(&Job) -> Option<Answer>) -> What {
        let mut answers = Vec::new();
        for job in std::iter::once(job).chain(self.jobs[job].followers.iter().copied()) {
            answers.extend(answer(&self.jobs[job]).map(|answer| (job, answer)));
        }
        match (answers.len(), answers.pop()) {
            (1, Some((job, answer))) => What::Answer { job, answer },
            (_, last) => {
                answers.extend(last);
                What::Answers(answers)
            }
        }
    }

    pub(super) fn arrive(&mut self, job: usize, at: u64) {
        let Job { client: c, conn, arrives, .. } = self.jobs[job];
        if arrives != Some(at) || !self.server_is_up || self.killed.contains(&(c, conn)) {
            return;
        }
        self.jobs[job].arrives = None;
        self.jobs[job].applied_at = self.now;
        if self.refused(job).is_none() {
            let answer = self.carry_out(job);
            self.carry_out_acquire_all(job, &answer);
            self.jobs[job].answer = Some(answer);
        }
        let client = &self.clients[c];
        if client.life != self.jobs[job].life || client.link.conn != conn || !client.link.works() {
            note!(self, "server: {job} arrives late, nobody hears the answer");
            self.jobs[job].answer = None;
            self.late_arrival(job);
            for follower in self.jobs[job].followers.clone() {
                self.late_arrival(follower);
            }
            return;
        }
        let delay = self.delay();
        let at = (self.now + delay).max(self.clients[c].link.reply + 1);
        self.clients[c].link.reply = at;
        self.at(at, Event::Received { job });
    }

    pub(super) fn carry_out(&mut self, job: usize) -> Answer {
        let command = self.jobs[job].command.clone();
        let repeatable =
            matches!(command, Command::Acquire(_, Ask::Full(_)) | Command::Replace(..) | Command::Renew(..));
        let twice = repeatable && self.chance(self.cfg.resend);
        let mut answer = self.carry_out_once(job, &command);
        if twice {
            answer = self.carry_out_once(job, &command);
        }
        answer
    }

    fn carry_out_once(&mut self, job: usize, command: &Command) -> Answer {
        let key = self.jobs[job].context.key.clone();
        let name = self.name_of(job);
        let server_time = self.server_time();
        let index = self.key_index(&key);
        let before = self.before(index);
        let mut notes = Vec::new();
        let from = Sender { client: &name, key: &key };
        let answer = match command {
            Command::Acquire(asked, op) => {
                Answer::Acquire(*asked, Ok(self.server.acquire(server_time, &from, op, &mut notes)))
            }
            Command::Replace(asked, op) => {
                Answer::Acquire(*asked, Ok(self.server.replace(server_time, &from, op)))
            }
            Command::Release(asked, op) => {
                Answer::Release(*asked, Ok(self.server.release(server_time, &from, op, &mut notes)))
            }
            Command::Renew(asked, op) => Answer::Renew(*asked, Ok(self.carry_out_renewal(&from, *op))),
        };
        note!(self, "server: {job} {:?} of {name}: {}", op_of(command), short(&answer));
        self.value_may_have_changed(index);
        let text = token_text(&name, self.jobs[job].context.token);
        if let Answer::Acquire(_, Ok(AcquireReply::Acquired { .. })) = answer {
            self.was_acquired(command, &text);
        }
        match (command, &answer) {
            (Command::Acquire(_, Ask::Full(op)), Answer::Acquire(_, Ok(reply))) => {
                self.check_overtaking(&before, &text, reply);
                self.watch_ask(index, self.jobs[job].client, &before, op, reply);
                self.watch_first_behind(index, self.jobs[job].client, op, reply);
                // In a gap, the next waiter in the queue does not know that it is the first now. Only the new holder
                // knows of the gap: other processes that could share the lock discover it by their heartbeats.
                if matches!(reply, AcquireReply::Acquired { .. }) && !before.queue.is_empty() {
                    self.others_were_not_told(index);
                }
            }
            (Command::Replace(_, op), Answer::Acquire(_, Ok(reply))) => {
                self.check_replaced(self.jobs[job].client, index, &before, op, reply)
            }
            (Command::Release(_, op), Answer::Release(_, Ok(reply))) => {
                self.check_hand_over(index, &before, &text, *reply, &notes);
                self.was_released(index, &name, op, *reply);
            }
            _ => {}
        }
        self.publish(notes);
        answer
    }

    fn was_released(&mut self, index: usize, name: &Arc<str>, op: &op::Release, reply: ReleaseReply) {
        match reply {
            ReleaseReply::Released { .. } => {
                self.lease_was_left(index, name, op.token);
                if op.keep_taken_for.is_some() {
                    self.nobody_was_told(index);
                }
            }
            ReleaseReply::Cancelled => self.nobody_was_told(index),
            ReleaseReply::NotHeld if self.has_run_out(index, name, op.token) => self.nobody_was_told(index),
            ReleaseReply::NotHeld => {}
        }
    }

    pub(super) fn name_of(&self, job: usize) -> Arc<str> {
        let Job { client, life, .. } = self.jobs[job];
        format!("c{client}-{life}").into()
    }

    pub(super) fn received(&mut self, job: usize) {
        let Job { client: c, life, conn, .. } = self.jobs[job];
        let client = &mut self.clients[c];
        if client.life != life || client.link.conn != conn || !client.link.works() {
            return;
        }
        client.link.open.retain(|open| *open != job);
        if self.chance(self.cfg.shifted) && self.is_out_of_step(c, job) {
            return;
        }
        if self.jobs[job].answer.is_some() {
            let late = self.some(self.cfg.notice * 1000);
            let what = self.with_followers(job, |job| job.answer.clone());
            self.post(c, late, what);
        }
    }

    /// Gives the reply to another request. A backend finds the wrong token in it, and gives the link up.
    fn is_out_of_step(&mut self, c: usize, job: usize) -> bool {
        let token = self.jobs[job].context.token;
        let other = self.clients[c].link.open.iter().copied().find(|other| {
            let other = &self.jobs[*other];
            other.context.token != token && is_alike(&other.command, &self.jobs[job].command)
        });
        let Some(other) = other else { return false };
        if mutated!(ReplyToWrongRequest) {
            self.clients[c].link.open.retain(|open| *open != other);
            let answer = self.jobs[job].answer.clone();
            if let Some(answer) = answer.and_then(|answer| in_place_of(&self.jobs[other].command, answer)) {
                self.post(c, 0, What::Answer { job: other, answer });
            }
        } else {
            self.clients[c].link.open.push(job);
            self.break_link(c, Notice::Comes);
        }
        true
    }

    /// A command of `token` is on its way to the server.
    pub(super) fn is_leaving(&self, c: usize, token: crate::protocol::Token) -> bool {
        self.jobs.iter().rev().take(400).any(|job| {
            job.client == c
                && job.context.token == token
                && job.arrives.is_some()
                && matches!(job.command, Command::Release(..))
        })
    }

    /// Whether a release of `token` has failed with its link, and its task has not noticed and repeated it.
    pub(super) fn is_failing(&self, c: usize, token: crate::protocol::Token) -> bool {
        self.jobs.iter().rev().take(400).any(|job| {
            job.client == c
                && job.life == self.clients[c].life
                && job.context.token == token
                && job.failed_at > self.now
                && matches!(job.command, Command::Release(..))
        })
    }

    /// Notes that the reply to `job` contained the server's time.
    pub(super) fn time_was_received(&mut self, c: usize, job: usize, answer: &Answer) {
        let heard: Option<ServerTime> = answer.server_time();
        let applied_at = self.jobs[job].applied_at;
        let mut seen = false;
        let client = &mut self.clients[c];
        if heard.is_some() && self.kernel.now - applied_at < 200 * MILLI {
            if client.knew_the_time && applied_at > self.fault_at {
                seen = !client.step_seen;
                client.step_seen = true;
            }
            client.knows_the_time = true;
        }
        if seen {
            self.watch_renewal_after_step(c);
        }
    }

    // The connection's life.

    /// Breaks the connection. No notice comes to a process that has died.
    pub(super) fn break_link(&mut self, c: usize, notice: Notice) {
        if !self.clients[c].link.works() {
            return;
        }
        let how = if self.rng.bool() { Breakage::Both } else { Breakage::Replies };
        note!(self, "process {c}: connection {} breaks: {how:?}", self.clients[c].link.conn);
        self.clients[c].disturbed_at = self.now;
        self.clients[c].link.broken = Some(how);
        for key in 0..self.keys.len() {
            // This process may be the one that just learned that the key is free.
            if self.keys[key].vacant_since.is_some() {
                self.nobody_was_told(key);
            }
        }
        let open = self.clients[c].link.open.clone();
        if how == Breakage::Both {
            let cut = self.rng.usize(0..=open.len());
            let mut late = self.now + self.some(LATEST_ARRIVAL / 2);
            for (index, job) in open.into_iter().enumerate() {
                if self.jobs[job].arrives.is_none() {
                    continue;
                }
                late += 1 + self.some(100 * MILLI);
                self.jobs[job].arrives = (index < cut && late < self.now + LATEST_ARRIVAL).then_some(late);
                if let Some(at) = self.jobs[job].arrives {
                    self.at(at, Event::Arrive { job, at });
                }
            }
        }
        if notice == Notice::Comes {
            let conn = self.clients[c].link.conn;
            let most = super::config::pick(&mut self.rng, &[MILLI, 100 * MILLI, SECOND]);
            let late = self.some(most);
            self.after(late, Event::Notice { client: c, conn });
        }
    }

    pub(super) fn notice_break(&mut self, c: usize, conn: u32) {
        if !self.clients[c].alive || self.clients[c].link.conn != conn || !self.clients[c].link.up {
            return;
        }
        if self.clients[c].paused_until > self.now {
            let at = self.clients[c].paused_until;
            self.at(at, Event::Notice { client: c, conn });
            return;
        }
        self.clients[c].disturbed_at = self.now;
        self.clients[c].link.up = false;
        for job in std::mem::take(&mut self.clients[c].link.open) {
            let most = if self.rng.u32(0..10) == 0 { SECOND } else { 2 * MILLI };
            let late = self.some(most);
            self.jobs[job].failed_at = self.now + late;
            let what = self.with_followers(job, |job| Some(failed(&job.command, Failure::Unknown)));
            self.post(c, late, what);
        }
        self.post(c, 0, What::Link(LinkEvent::Down { cause: failure(Failure::Unknown) }));
        let life = self.clients[c].life;
        let late = self.some(200 * MILLI);
        self.after(late, Event::Connect { client: c, life });
    }

    pub(super) fn connect(&mut self, c: usize, life: u32) {
        let client = &self.clients[c];
        if !client.alive || client.life != life || client.link.up {
            return;
        }
        let out_of_reach = client.link.out_of_reach_until > self.now && self.now < self.horizon();
        if client.paused_until > self.now || out_of_reach || !self.server_is_up {
            self.post(c, 0, What::Link(LinkEvent::Down { cause: failure(Failure::NotSent) }));
            let late = 50 * MILLI + self.some(300 * MILLI);
            self.after(late, Event::Connect { client: c, life });
            return;
        }
        let conn = self.clients[c].link.conn + 1;
        self.clients[c].link.conn = conn;
        let conns = self.clients[c].link.former.clone();
        let (there, back) = (self.delay(), self.delay());
        if self.cfg.former_links_dead && !conns.is_empty() {
            let late = if mutated!(CompensationBeforeKill) { there + back + SECOND } else { there };
            self.after(late, Event::Kill { client: c, conns });
        }
        self.after(there + back, Event::LinkUp { client: c, life, conn });
    }

    pub(super) fn link_is_up(&mut self, c: usize, life: u32, conn: u32) {
        let client = &mut self.clients[c];
        if !client.alive || client.life != life || client.link.conn != conn {
            return;
        }
        // The server that was asked may be gone, and another in its place.
        if !self.server_is_up || self.killed.contains(&(c, conn)) {
            let late = self.some(300 * MILLI);
            self.after(late, Event::Connect { client: c, life });
            return;
        }
        let link = &mut client.link;
        let dead = self.cfg.former_links_dead || link.former.is_empty();
        let earlier = if dead { EarlierCommands::Ended } else { EarlierCommands::MayArrive };
        link.former = vec![conn];
        link.up = true;
        link.broken = None;
        (link.arrival, link.reply) = (self.kernel.now, self.kernel.now);
        let pushes = client.push.heard;
        client.disturbed_at = self.kernel.now;
        self.post(c, 0, What::Link(LinkEvent::Up { earlier, pushes }));
    }

    /// The server is down: commands and replies in flight no longer arrive.
    pub(super) fn break_everything(&mut self) {
        for job in &mut self.jobs {
            job.arrives = None;
        }
        self.server.lose_listeners();
        for c in 0..self.clients.len() {
            self.break_push(c, Notice::Comes);
            self.clients[c].link.former.clear();
            self.killed.insert((c, self.clients[c].link.conn));
            if self.clients[c].link.up {
                self.clients[c].link.broken = Some(Breakage::Both);
                let conn = self.clients[c].link.conn;
                let late = self.some(50 * MILLI);
                self.after(late, Event::Notice { client: c, conn });
            }
        }
    }
}

fn acquires(command: &Command) -> bool {
    matches!(command, Command::Acquire(..) | Command::Replace(..))
}
