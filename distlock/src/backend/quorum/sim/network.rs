//! The connections of processes to servers. They keep the order, and everything in them may be lost when they break.

use std::fmt::Debug;
use std::sync::Arc;

use super::config::{MILLI, SECOND};
use super::process::Process;
use super::world::{Event, World};
use crate::backend::memory::server::{News, Sender};
use crate::backend::quorum::effect::{MemberCommand, MemberReply, NewLink};
use crate::backend::quorum::follow_up::take;
use crate::backend::redis::{Mark, Origin, ServerNote};
use crate::backend::{EarlierCommands, Failure, Notifications, Push, StoreError, op, token_text};

/// How late a command that was sent into a broken connection may arrive.
const LATE: u64 = 4 * SECOND;

/// One process's connection to one server.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) conn: u32,
    pub(super) up: bool,
    pub(super) broken: bool,
    /// The time of its last change.
    since: u64,
    /// No command of the former connection can still arrive.
    former_links_dead: bool,
    hears: bool,
    arrival: u64,
    reply: u64,
    open: Vec<usize>,
}

impl Link {
    /// Not connected yet. The numbers of connections continue.
    pub(super) fn after(former: &Link) -> Link {
        Link { conn: former.conn, ..Link::default() }
    }

    pub(super) fn is_sound_since(&self) -> Option<u64> {
        (self.up && !self.broken).then_some(self.since)
    }
}

/// A command in flight.
pub(super) struct Flight {
    process: usize,
    life: u32,
    node: usize,
    conn: u32,
    run: u32,
    key: Arc<str>,
    command: MemberCommand,
    answer: Option<MemberReply>,
    /// Its process knows its outcome.
    is_over: bool,
}

impl Flight {
    pub(super) fn process(&self) -> usize {
        self.process
    }
}

pub(super) fn error(kind: Failure) -> StoreError {
    StoreError::new(kind, "simulated")
}

/// The operation of a command.
fn op_of(command: &MemberCommand) -> &dyn Debug {
    match command {
        MemberCommand::Ask(_, op) => op,
        MemberCommand::Release(_, op) => op,
        MemberCommand::Renew(_, op) => op,
        MemberCommand::Fence(_, op) => op,
    }
}

/// The result in a reply.
fn result_of(answer: &MemberReply) -> &dyn Debug {
    match answer {
        MemberReply::Ask(_, result) => result,
        MemberReply::Release(_, result) => result,
        MemberReply::Renew(_, result) => result,
        MemberReply::Fence(_, result) => result,
    }
}

impl World {
    pub(super) fn start(&mut self, process: usize) {
        let life = self.processes[process].life;
        for node in 0..self.nodes.len() {
            let at = self.now + self.rng.u64(MILLI..20 * MILLI);
            self.at(at, Event::Connect { process, node, life });
        }
    }

    fn slowness(&mut self, node: usize) -> u64 {
        match self.cfg.slow {
            Some((slow, most)) if slow == node => self.rng.u64(most / 2..=most) * MILLI,
            _ => 0,
        }
    }

    fn patience(&self) -> u64 {
        self.cfg.patience * MILLI
    }

    fn delay(&mut self) -> u64 {
        let bounds = self.cfg.delay;
        self.between(bounds)
    }

    pub(super) fn send(&mut self, process: usize, node: usize, key: Arc<str>, command: MemberCommand) {
        if !self.processes[process].links[node].up {
            // The connection is known to be lost, but the coordinator has not been notified yet.
            let now = self.instant(process);
            let answer = command.failed(error(Failure::NotSent));
            return self.processes[process].coordinator.answered(now, node, answer);
        }
        // As on the real servers, every reply contains the time.
        let command = match command {
            MemberCommand::Ask(job, op::Ask::Plain(op)) => {
                MemberCommand::Ask(job, take(op.token, op.ttl).into())
            }
            other => other,
        };
        let index = self.jobs.len();
        self.stats.commands += 1;
        self.note(|| format!("process {process} → server {node}: {index}: {:?}", op_of(&command)));
        let delay = self.delay() + self.slowness(node);
        let (now, life) = (self.now, self.processes[process].life);
        let link = &mut self.processes[process].links[node];
        let conn = link.conn;
        link.open.push(index);
        // A command that is sent into a broken connection may arrive or be lost.
        let lost = link.broken && self.kernel.rng.bool();
        let late =
            if link.broken && self.cfg.former_links_alive > 0.0 { self.kernel.rng.u64(0..LATE) } else { 0 };
        link.arrival = (now + delay + late).max(link.arrival + 1);
        let at = link.arrival;
        let run = self.nodes[node].run;
        let (answer, is_over) = (None, false);
        self.jobs.push(Flight { process, life, node, conn, run, key, command, answer, is_over });
        if !lost {
            self.at(at, Event::Arrive { job: index });
        }
    }

    pub(super) fn arrive(&mut self, index: usize) {
        let Flight { process, life, node, conn, .. } = self.jobs[index];
        // A connection ends with its server.
        if !self.nodes[node].up || self.nodes[node].run != self.jobs[index].run {
            return;
        }
        if self.nodes[node].hangs_until > self.now {
            // The order is kept: commands that wait in the socket are read first.
            let at = self.nodes[node].hangs_until;
            return self.at(at, Event::Arrive { job: index });
        }
        let current =
            self.processes[process].life == life && self.processes[process].links[node].conn == conn;
        // If the former connection is known to have been killed before the present one was made, its commands are lost.
        let link = &self.processes[process].links[node];
        if !current && link.up && link.former_links_dead {
            return;
        }
        let server_time = self.server_time(node);
        let name = self.processes[process].name_in(life);
        let (key, command) = (self.jobs[index].key.clone(), self.jobs[index].command.clone());
        let mut notes = Vec::new();
        let takes = matches!(command, MemberCommand::Ask(..) | MemberCommand::Fence(..));
        let answer = if takes && self.nodes[node].refuses_until > self.now {
            command.failed(error(Failure::Refused))
        } else if self.chance(self.cfg.later) {
            command.failed(error(Failure::Later))
        } else {
            let (server, from) = (&mut self.nodes[node].server, Sender { client: &name, key: &key });
            match command {
                MemberCommand::Ask(job, op) => {
                    MemberReply::Ask(job, Ok(server.acquire(server_time, &from, &op, &mut notes)))
                }
                MemberCommand::Release(job, op) => {
                    MemberReply::Release(job, Ok(server.release(server_time, &from, &op, &mut notes)))
                }
                MemberCommand::Renew(round, op) => {
                    MemberReply::Renew(round, Ok(server.renew(server_time, &from, &op)))
                }
                MemberCommand::Fence(job, op) => {
                    MemberReply::Fence(job, Ok(server.fence(server_time, &from, &op)))
                }
            }
        };
        self.note(|| format!("server {node}: {index}: {:?}", result_of(&answer)));
        self.jobs[index].answer = Some(answer);
        self.tell_about(node, notes);
        if current && !self.processes[process].links[node].broken {
            let delay = self.delay();
            let now = self.now;
            let link = &mut self.processes[process].links[node];
            link.reply = (now + delay).max(link.reply + 1);
            let at = link.reply;
            self.at(at, Event::Answer { job: index });
        }
    }

    pub(super) fn tell_about(&mut self, node: usize, notes: Vec<crate::backend::memory::server::Note>) {
        for note in notes {
            let server_time = self.server_time(node);
            let (key, token) = (note.key, note.token);
            let push = match note.news {
                News::Gap => Push::Gap { key, token },
                News::Wanted => Push::Wanted { key, token },
                News::Grant { handoffs_began, fence, .. } => {
                    Push::Grant { key, token, server_time, handoffs_began, fence }
                }
            };
            self.publish(node, &note.client, push);
        }
    }

    fn publish(&mut self, node: usize, client: &Arc<str>, push: Push) {
        let Some(process) = self.processes.iter().position(|process| process.name == *client) else { return };
        let (life, conn) = (self.processes[process].life, self.processes[process].links[node].conn);
        if self.chance(self.cfg.push_loss) || !self.processes[process].links[node].hears {
            if let Push::Grant { token, .. } = push {
                self.nodes[node].unheard.push(token_text(client, token));
            }
            return self.note(|| format!("server {node}: the push for process {process} is lost"));
        }
        let at = self.now + self.delay();
        self.at(at, Event::Push { process, life, node, conn, push });
    }

    pub(super) fn push_arrives(&mut self, process: usize, life: u32, node: usize, conn: u32, push: Push) {
        let Process { life: current, links, .. } = &self.processes[process];
        if *current != life || links[node].conn != conn || !links[node].up || links[node].broken {
            return;
        }
        self.note(|| format!("process {process}: server {node} says: {push:?}"));
        let now = self.instant(process);
        self.processes[process].coordinator.heard(now, node, push);
        self.carry_out(process);
    }

    pub(super) fn answer(&mut self, index: usize) {
        let Flight { process, life, node, conn, .. } = self.jobs[index];
        let link = &mut self.processes[process].links[node];
        if link.conn != conn || link.broken || !link.up || self.processes[process].life != life {
            return;
        }
        self.processes[process].links[node].open.retain(|open| *open != index);
        let Flight { command, answer, .. } = &self.jobs[index];
        let answer = answer.clone().unwrap_or_else(|| command.failed(error(Failure::Unknown)));
        self.give(process, node, index, answer);
    }

    fn give(&mut self, process: usize, node: usize, index: usize, answer: MemberReply) {
        if std::mem::replace(&mut self.jobs[index].is_over, true) {
            return;
        }
        let now = self.instant(process);
        self.processes[process].coordinator.answered(now, node, answer);
        self.carry_out(process);
    }

    pub(super) fn break_link(&mut self, process: usize, node: usize) {
        let link = &mut self.processes[process].links[node];
        if !link.up || link.broken {
            return;
        }
        link.broken = true;
        link.since = self.kernel.now;
        let conn = link.conn;
        let late = self.kernel.rng.u64(0..self.patience());
        self.at(self.now + late, Event::Notice { process, node, conn });
    }

    /// The process notices that its connection is broken.
    pub(super) fn notice(&mut self, process: usize, node: usize, conn: u32) {
        let life = self.processes[process].life;
        let link = &mut self.processes[process].links[node];
        if link.conn != conn || !link.up {
            return;
        }
        link.up = false;
        let open = std::mem::take(&mut link.open);
        self.note(|| format!("process {process}: server {node} is lost"));
        let now = self.instant(process);
        // Either of the two may be noticed first.
        let failed_first = self.rng.bool();
        if !failed_first {
            self.processes[process].coordinator.member_left(now, node, error(Failure::Unknown));
        }
        for index in open {
            let answer = self.jobs[index].command.failed(error(Failure::Unknown));
            self.give(process, node, index, answer);
        }
        if failed_first {
            self.processes[process].coordinator.member_left(now, node, error(Failure::Unknown));
        }
        self.carry_out(process);
        let at = self.now + self.rng.u64(MILLI..300 * MILLI);
        self.at(at, Event::Connect { process, node, life });
    }

    pub(super) fn connect(&mut self, process: usize, node: usize, life: u32) {
        if self.processes[process].life != life {
            return;
        }
        let now = self.instant(process);
        if !self.nodes[node].up || self.nodes[node].hangs_until > self.now {
            self.processes[process].coordinator.member_left(now, node, error(Failure::NotSent));
            self.carry_out(process);
            let at = self.now + self.rng.u64(50 * MILLI..SECOND);
            return self.at(at, Event::Connect { process, node, life });
        }
        let (former_links_dead, hears) =
            (!self.chance(self.cfg.former_links_alive), !self.chance(self.cfg.deaf));
        let earlier = if former_links_dead { EarlierCommands::Ended } else { EarlierCommands::MayArrive };
        let since = self.now;
        let link = &mut self.processes[process].links[node];
        *link = Link { conn: link.conn + 1, up: true, since, former_links_dead, hears, ..Link::default() };
        let name = self.processes[process].name.clone();
        if hears {
            self.nodes[node].server.subscribe(&name);
        } else {
            self.nodes[node].server.unsubscribe(&name);
        }
        let pushes = if hears { Notifications::On } else { Notifications::Off };
        let origin = self.origin(node);
        self.note(|| format!("process {process}: connected to server {node}, {origin:?}"));
        let link = NewLink { sent: now.time, earlier, pushes, origin };
        self.processes[process].coordinator.member_joined(now, node, link);
        self.carry_out(process);
    }

    pub(super) fn origin(&self, node: usize) -> Origin {
        let server = &self.nodes[node];
        let run_id = format!("{node}.{}", server.run);
        Origin {
            server_time: server.wall.at(self.now),
            attested: server.notes.counted.clone(),
            met: server.notes.met.clone().filter(|(run, _)| *run == run_id).map(|(_, met)| met),
            longest_ttl: server.notes.longest_ttl,
            fences: server.server.counter(),
            run_id,
        }
    }

    /// Applies a note, as the server's script does.
    pub(super) fn note_on(&mut self, node: usize, note: &ServerNote) {
        let node = &mut self.nodes[node];
        node.notes.longest_ttl = node.notes.longest_ttl.max(note.longest_ttl);
        node.server.raise_counter(note.fences);
        if let Some(met) = note.met
            && node.notes.met.as_ref().is_none_or(|(run, _)| *run != note.run_id)
        {
            node.notes.met = Some((note.run_id.clone(), met));
        }
        if note.mark == Mark::Count {
            node.notes.counted = Some(note.run_id.clone());
            node.forgot = false;
        }
    }

    /// A process that waits for a server's reply notices that the server hangs.
    pub(super) fn suspect_hung(&mut self, process: usize) {
        let patience = self.patience();
        for node in 0..self.nodes.len() {
            let link = &self.processes[process].links[node];
            if self.nodes[node].hangs_until > self.now + patience && link.up && !link.open.is_empty() {
                let conn = link.conn;
                self.at(self.now + patience, Event::Notice { process, node, conn });
            }
        }
    }
}
