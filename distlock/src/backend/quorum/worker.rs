//! Executes the coordinator's effects on the I/O thread.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};

use super::super::redis::ServerNote;
use super::super::{
    AcquireReply, Backend as _, BoxFuture, Events, LinkEvent, OpResult, ReleaseReply, RenewReply, Sending, op,
};
use super::coordinator::Coordinator;
use super::effect::{Effect, MemberCommand, MemberReply, Now, RoundOp, RoundOutcome, Writing};
use super::follow_up::take;
use super::{Input, QuorumBackend};
use distlock_store::clock;

/// With this many commands for one server at the same moment, a pipeline is worth its cost.
const MIN_BATCH: usize = 4;
/// The longest such pipeline.
const MAX_BATCH: usize = 500;
/// While anything is due, the suspend-proof clock is read at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// One command for one server.
type KeyedCommand = (Arc<str>, MemberCommand);

/// The coordinator's worker on the I/O thread.
pub(super) struct Worker<'a> {
    quorum: &'a QuorumBackend,
    coordinator: Coordinator,
    events: Arc<dyn Events>,
    inbox: mpsc::UnboundedSender<Input>,
    requesters: Requesters,
}

impl Worker<'_> {
    pub(super) fn new(
        quorum: &QuorumBackend,
        coordinator: Coordinator,
        events: Arc<dyn Events>,
        inbox: mpsc::UnboundedSender<Input>,
    ) -> Worker<'_> {
        Worker { quorum, coordinator, events, inbox, requesters: Requesters::default() }
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
            Input::Ask { key, op, reply } => {
                let round = coordinator.begin(now(), &key, RoundOp::Ask(op));
                self.requesters.asks.insert(round, reply);
            }
            Input::Release { key, op, reply } => {
                let round = coordinator.begin(now(), &key, RoundOp::Release(op));
                self.requesters.releases.insert(round, reply);
            }
            Input::Renew { key, op, reply } => {
                let round = coordinator.begin(now(), &key, RoundOp::Renew(op));
                self.requesters.renewals.insert(round, reply);
            }
            Input::Answer { node, answer } => coordinator.answered(now(), node, answer),
            Input::Joined { node, link } => coordinator.member_joined(now(), node, link),
            Input::Probed { node, sent, origin } => coordinator.looked(now(), node, sent, &origin),
            Input::Noted { node, note, writing } => coordinator.noted(now(), node, &note, writing),
            Input::Left { node, cause } => coordinator.member_left(now(), node, cause),
            Input::Listens { node, pushes } => coordinator.listens(now(), node, pushes),
            Input::Pushed { node, push } => coordinator.heard(now(), node, push),
        }
    }

    /// Executes effects until none is left.
    async fn carry_out(&mut self) {
        loop {
            let effects = self.coordinator.take_effects();
            if effects.is_empty() {
                return;
            }
            // The servers in the order in which they are to be sent their commands.
            let mut commands: Vec<(usize, Vec<KeyedCommand>)> = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Send { node, key, command } => {
                        match commands.iter_mut().find(|(to, _)| *to == node) {
                            Some((_, commands)) => commands.push((key, command)),
                            None => commands.push((node, vec![(key, command)])),
                        }
                    }
                    Effect::Done { round, outcome } => self.requesters.answer(round, outcome),
                    Effect::Link(event) => {
                        self.quorum.up.store(!matches!(event, LinkEvent::Down { .. }), Ordering::Release);
                        self.events.link(event);
                    }
                    Effect::Push(push) => self.events.push(push),
                    Effect::Probe { node: at } => {
                        if let Some(node) = self.quorum.nodes.get(at) {
                            let (sent, origin, inbox) = (clock::now(), node.origin(), self.inbox.clone());
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
    async fn leave_note(&mut self, at: usize, note: ServerNote) {
        let Some(node) = self.quorum.nodes.get(at) else { return };
        let mut future = node.note(note.clone());
        match first_poll(&mut future).await {
            Poll::Ready(result) => self.coordinator.noted(now(), at, &note, Writing::of(&result)),
            Poll::Pending => {
                let inbox = self.inbox.clone();
                tokio::spawn(async move {
                    let writing = Writing::of(&future.await);
                    // This fails only when the coordinator has ended together with the manager.
                    drop(inbox.send(Input::Noted { node: at, note, writing }));
                });
            }
        }
    }

    /// Sends one server's commands, in order.
    async fn send_commands(&mut self, node: usize, commands: Vec<KeyedCommand>) {
        let backend = &self.quorum.nodes[node];
        if commands.len() < MIN_BATCH {
            for (key, command) in commands {
                match command {
                    MemberCommand::Ask(job, op) => {
                        let sending = backend.send_acquire(&key, op);
                        self.follow(node, sending, move |result| MemberReply::Ask(job, result)).await;
                    }
                    MemberCommand::Release(job, op) => {
                        let sending = backend.send_release(&key, op);
                        self.follow(node, sending, move |result| MemberReply::Release(job, result)).await;
                    }
                    MemberCommand::Renew(round, op) => {
                        let sending = backend.send_renew(&key, op);
                        self.follow(node, sending, move |result| MemberReply::Renew(round, result)).await;
                    }
                    MemberCommand::Fence(job, op) => {
                        let sending = backend.send(&key, op);
                        self.follow(node, sending, move |result| MemberReply::Fence(job, result)).await;
                    }
                }
            }
            return;
        }
        let mut commands = commands.into_iter();
        loop {
            let batch: Vec<KeyedCommand> = commands.by_ref().take(MAX_BATCH).map(with_time).collect();
            if batch.is_empty() {
                return;
            }
            let sent: Vec<MemberCommand> = batch.iter().map(|(_, command)| command.clone()).collect();
            let mut future = backend.send_batch(batch);
            match first_poll(&mut future).await {
                Poll::Ready(results) => {
                    for answer in answers(sent, results) {
                        self.coordinator.answered(now(), node, answer);
                    }
                }
                Poll::Pending => {
                    let inbox = self.inbox.clone();
                    tokio::spawn(async move {
                        for answer in answers(sent, future.await) {
                            drop(inbox.send(Input::Answer { node, answer }));
                        }
                    });
                }
            }
        }
    }

    /// Gives one command its place in the order. The coordinator gets the answer, now or later.
    async fn follow<T: Send + 'static>(
        &mut self,
        node: usize,
        sending: Sending<T>,
        answer: impl FnOnce(OpResult<T>) -> MemberReply + Send + 'static,
    ) {
        let mut future = match sending {
            Sending::Ready(result) => return self.coordinator.answered(now(), node, answer(result)),
            Sending::Pending(future) => future,
        };
        match first_poll(&mut future).await {
            Poll::Ready(result) => self.coordinator.answered(now(), node, answer(result)),
            Poll::Pending => {
                let inbox = self.inbox.clone();
                tokio::spawn(async move {
                    let answer = answer(future.await);
                    // This fails only when the coordinator has ended together with the manager.
                    drop(inbox.send(Input::Answer { node, answer }));
                });
            }
        }
    }
}

/// The same command; one that asks for a lock in a form whose reply tells the server's time.
fn with_time((key, command): KeyedCommand) -> KeyedCommand {
    let command = match command {
        MemberCommand::Ask(job, op::Ask::Plain(op)) => MemberCommand::Ask(job, take(op.token, op.ttl).into()),
        other => other,
    };
    (key, command)
}

/// The results of commands that were sent together.
fn answers(
    sent: Vec<MemberCommand>,
    results: Vec<OpResult<MemberReply>>,
) -> impl Iterator<Item = MemberReply> {
    let results = sent.into_iter().zip(results);
    results.map(|(command, result)| result.unwrap_or_else(|error| command.failed(error)))
}

/// The tasks that wait for the rounds that are not decided.
#[derive(Default)]
struct Requesters {
    asks: HashMap<u64, oneshot::Sender<OpResult<AcquireReply>>>,
    releases: HashMap<u64, oneshot::Sender<OpResult<ReleaseReply>>>,
    renewals: HashMap<u64, oneshot::Sender<OpResult<RenewReply>>>,
}

impl Requesters {
    fn answer(&mut self, round: u64, outcome: RoundOutcome) {
        // Sending fails only if the requester is gone.
        match outcome {
            RoundOutcome::Ask(result) => drop(self.asks.remove(&round).map(|reply| reply.send(result))),
            RoundOutcome::Release(result) => {
                drop(self.releases.remove(&round).map(|reply| reply.send(result)))
            }
            RoundOutcome::Renew(result) => drop(self.renewals.remove(&round).map(|reply| reply.send(result))),
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
