//! Carries out the coordinator's effects on the I/O thread.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};

use super::super::redis::Note;
use super::super::{Backend as _, BoxFuture, Events, LinkEvent, Op, OpResult, Sending};
use super::coordinator::Coordinator;
use super::effect::{Effect, Job, Now};
use super::follow_up::take;
use super::{Input, QuorumBackend};
use crate::clock;

/// With this many commands for one server at the same moment, a pipeline is worth its cost.
const WORTH_A_BATCH: usize = 4;
/// The longest such pipeline.
const BATCH: usize = 500;
/// While anything is due, the suspend-proof clock is read at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// One command for one server.
type Letter = (Job, Arc<str>, Op);

/// The coordinator's worker on the I/O thread.
pub(super) struct Worker<'a> {
    quorum: &'a QuorumBackend,
    coordinator: Coordinator,
    events: Arc<dyn Events>,
    replies: HashMap<u64, oneshot::Sender<OpResult>>,
}

impl Worker<'_> {
    pub(super) fn new(
        quorum: &QuorumBackend,
        coordinator: Coordinator,
        events: Arc<dyn Events>,
    ) -> Worker<'_> {
        Worker { quorum, coordinator, events, replies: HashMap::new() }
    }

    pub(super) async fn work(&mut self, mut outbox: mpsc::UnboundedReceiver<Input>) {
        loop {
            let due = self.coordinator.next_due();
            let pause = due.map_or(LONGEST_SLEEP, |due| due.duration_since(clock::now()).min(LONGEST_SLEEP));
            tokio::select! {
                biased;
                input = outbox.recv() => match input {
                    Some(input) => self.handle(input),
                    None => return,
                },
                () = tokio::time::sleep(pause), if due.is_some() => self.coordinator.fire(now()),
            }
            while let Ok(input) = outbox.try_recv() {
                self.handle(input);
            }
            self.carry_out().await;
        }
    }

    fn handle(&mut self, input: Input) {
        let coordinator = &mut self.coordinator;
        match input {
            Input::Op { key, op, reply } => {
                let round = coordinator.begin(now(), &key, op);
                self.replies.insert(round, reply);
            }
            Input::Answer { node, job, result } => coordinator.answered(now(), node, job, result),
            Input::Joined { node, sent, former_links_dead, pushes, origin } => {
                coordinator.member_joined(now(), node, sent, former_links_dead, pushes, origin);
            }
            Input::Probed { node, sent, origin } => coordinator.looked(now(), node, sent, &origin),
            Input::Noted { node, note, written } => coordinator.noted(now(), node, &note, written),
            Input::Left { node, cause } => coordinator.member_left(now(), node, cause),
            Input::Listens { node, pushes } => coordinator.listens(now(), node, pushes),
            Input::Pushed { node, push } => coordinator.heard(now(), node, push),
        }
    }

    /// Carries out effects until none is left.
    async fn carry_out(&mut self) {
        loop {
            let effects = self.coordinator.take_effects();
            if effects.is_empty() {
                return;
            }
            // The servers in the order in which they are to be sent their commands.
            let mut commands: Vec<(usize, Vec<Letter>)> = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Send { node, job, key, op } => {
                        match commands.iter_mut().find(|(to, _)| *to == node) {
                            Some((_, commands)) => commands.push((job, key, op)),
                            None => commands.push((node, vec![(job, key, op)])),
                        }
                    }
                    Effect::Done { round, result } => {
                        if let Some(reply) = self.replies.remove(&round) {
                            // Fails only if the requester is gone.
                            drop(reply.send(result));
                        }
                    }
                    Effect::Link(event) => {
                        self.quorum.up.store(!matches!(event, LinkEvent::Down { .. }), Ordering::Release);
                        self.events.link(event);
                    }
                    Effect::Push(push) => self.events.push(push),
                    Effect::Probe { node: at } => {
                        if let Some(node) = self.quorum.nodes.get(at) {
                            let (sent, origin, inbox) =
                                (clock::now(), node.origin(), self.quorum.inbox.clone());
                            tokio::spawn(async move {
                                // A fault of the server shows elsewhere.
                                if let Ok(origin) = origin.await {
                                    drop(inbox.send(Input::Probed { node: at, sent, origin }));
                                }
                            });
                        }
                    }
                    Effect::Note { node, note } => self.leave_note(node, note).await,
                }
            }
            for (node, commands) in commands {
                self.send_commands(node, commands).await;
            }
        }
    }

    /// Writes a note, before any later command to this server.
    async fn leave_note(&mut self, at: usize, note: Note) {
        let Some(node) = self.quorum.nodes.get(at) else { return };
        let mut future = node.note(note.clone());
        match first_poll(&mut future).await {
            Poll::Ready(result) => self.coordinator.noted(now(), at, &note, result.is_ok()),
            Poll::Pending => {
                let inbox = self.quorum.inbox.clone();
                tokio::spawn(async move {
                    let written = future.await.is_ok();
                    // Fails only when the coordinator has ended, with the manager.
                    drop(inbox.send(Input::Noted { node: at, note, written }));
                });
            }
        }
    }

    /// Sends one server's commands, in order.
    async fn send_commands(&mut self, node: usize, commands: Vec<Letter>) {
        let backend = &self.quorum.nodes[node];
        if commands.len() < WORTH_A_BATCH {
            for (job, key, op) in commands {
                let mut future = match backend.send(&key, op) {
                    Sending::Ready(result) => {
                        self.coordinator.answered(now(), node, job, result);
                        continue;
                    }
                    Sending::Pending(future) => future,
                };
                match first_poll(&mut future).await {
                    Poll::Ready(result) => self.coordinator.answered(now(), node, job, result),
                    Poll::Pending => {
                        let inbox = self.quorum.inbox.clone();
                        tokio::spawn(async move {
                            let result = future.await;
                            // Fails only when the coordinator has ended, with the manager.
                            drop(inbox.send(Input::Answer { node, job, result }));
                        });
                    }
                }
            }
            return;
        }
        let mut commands = commands.into_iter();
        loop {
            let (mut jobs, mut batch) = (Vec::new(), Vec::new());
            for (job, key, op) in commands.by_ref().take(BATCH) {
                jobs.push(job);
                batch.push((key, if let Op::TryAcquire { token, ttl } = op { take(token, ttl) } else { op }));
            }
            if jobs.is_empty() {
                return;
            }
            let mut future = backend.send_batch(batch);
            match first_poll(&mut future).await {
                Poll::Ready(results) => {
                    for (job, result) in jobs.into_iter().zip(results) {
                        self.coordinator.answered(now(), node, job, result);
                    }
                }
                Poll::Pending => {
                    let inbox = self.quorum.inbox.clone();
                    tokio::spawn(async move {
                        for (job, result) in jobs.into_iter().zip(future.await) {
                            drop(inbox.send(Input::Answer { node, job, result }));
                        }
                    });
                }
            }
        }
    }
}

/// Fixes its place in the order of commands; the caller awaits the rest elsewhere.
async fn first_poll<T>(future: &mut BoxFuture<T>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

fn now() -> Now {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Now { time: clock::now(), wall: u64::try_from(wall.as_micros()).unwrap_or(0) }
}
