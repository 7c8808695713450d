//! A server that replies, but refuses commands.

use super::answers::{failed, is_acquired, op_of};
use super::config::{MILLI, SECOND, pick};
use super::faults::Fault;
use super::world::{Event, World};
use crate::engine::Command;
use crate::protocol::Failure;
use crate::protocol::op::Ask;

/// Why the server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It cannot write at the moment: it loads its data, is a replica, or lacks replicas.
    Later,
    /// It is out of memory: it writes no new data.
    NoMemory,
    /// An operator has changed the permissions.
    NoPermission,
}

impl World {
    /// Whether commands are executed.
    pub(super) fn serves(&self) -> bool {
        self.server_is_up && self.refusal.is_none()
    }

    pub(super) fn refusal_begins(&mut self) {
        let refusal =
            pick(&mut self.rng, &[Refusal::Later, Refusal::Later, Refusal::NoMemory, Refusal::NoPermission]);
        note!(self, "server: refuses from now on: {refusal:?}");
        self.refusal = Some(refusal);
        self.everybody_is_disturbed();
        let most = pick(&mut self.rng, &[50 * MILLI, SECOND, 6 * SECOND]);
        let late = self.some(most);
        self.after(late, Event::Fault(Fault::RefusalEnds));
    }

    pub(super) fn refusal_ends(&mut self) {
        note!(self, "server: refuses nothing any more");
        self.refusal = None;
        self.everybody_is_disturbed();
    }

    fn everybody_is_disturbed(&mut self) {
        let now = self.now;
        for client in &mut self.clients {
            client.disturbed_at = client.disturbed_at.max(now);
        }
        for key in 0..self.keys.len() {
            self.nobody_was_told(key);
        }
    }

    /// Whether the server refuses `job`, and how.
    pub(super) fn refused(&mut self, job: usize) -> Option<Failure> {
        let command = &self.jobs[job].command;
        let kind = match self.refusal? {
            Refusal::Later => Failure::Later,
            Refusal::NoMemory if !matches!(command, Command::Acquire(..)) => return None,
            Refusal::NoMemory | Refusal::NoPermission => Failure::Refused,
        };
        note!(self, "server: refuses {job} {:?}: {kind:?}", op_of(&self.jobs[job].command));
        self.refuse_script(job, kind);
        Some(kind)
    }

    /// A script that is refused permanently may have done something before.
    fn refuse_script(&mut self, job: usize, kind: Failure) {
        let followers = self.jobs[job].followers.clone();
        let all: Vec<usize> = std::iter::once(job).chain(followers).collect();
        if matches!(self.jobs[job].command, Command::Acquire(_, Ask::Full(_))) && kind == Failure::Refused {
            let done = self.rng.usize(0..=all.len());
            for part in &all[..done] {
                self.jobs[*part].applied_at = self.now;
                if !is_acquired(&self.carry_out(*part)) {
                    break;
                }
            }
        }
        for part in all {
            self.jobs[part].answer = Some(failed(&self.jobs[part].command, kind));
        }
    }
}
