//! Executes the coordinator's effects on the I/O thread.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};

use super::super::redis::ServerNote;
use super::super::{Backend as _, BoxFuture, Events, LinkEvent, OpResult, Sending, op};
use super::coordinator::Coordinator;
use super::effect::{Effect, MemberCommand, MemberReply, Now, RoundOutcome, Writing};
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
    /// The tasks that wait for the rounds that are not decided.
    requesters: HashMap<u64, oneshot::Sender<RoundOutcome>>,
}

impl Worker<'_> {
    pub(super) fn new(
        quorum: &QuorumBackend,
        coordinator: Coordinator,
        events: Arc<dyn Events>,
        inbox: mpsc::UnboundedSender<Input>,
    ) -> Worker<'_> {
        Worker { quorum, coordinator, events, inbox, requesters: HashMap::new() }
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
                () = tokio::time::sleep(pause), if due.is_some() => {}
            }
            while let Ok(input) = outbox.try_recv() {
                self.handle(input);
            }
            // Inputs may come without pause, and then no sleep ends.
            if self.coordinator.next_due().is_some_and(|due| due <= clock::now()) {
                self.coordinator.fire(now());
            }
            self.carry_out().await;
        }
    }

    fn handle(&mut self, input: Input) {
        let coordinator = &mut self.coordinator;
        match input {
            Input::Begin { key, request, reply } => {
                let round = coordinator.begin(now(), &key, request);
                self.requesters.insert(round, reply);
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
                    Effect::Done { round, outcome } => {
                        // Sending fails only if the requester is gone.
                        drop(self.requesters.remove(&round).map(|reply| reply.send(outcome)));
                    }
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
        let noted = node.note(note.clone());
        self.start(noted, move |result| [Input::Noted { node: at, note, writing: Writing::of(&result) }])
            .await;
    }

    /// Sends one server's commands, in order.
    async fn send_commands(&mut self, node: usize, commands: Vec<KeyedCommand>) {
        let backend = &self.quorum.nodes[node];
        if commands.len() < MIN_BATCH {
            for (key, command) in commands {
                // It makes sure that the reply contains the server's time.
                if let MemberCommand::Ask(job, op) = command {
                    let sending = backend.send_acquire(&key, op);
                    self.follow(node, sending, move |result| MemberReply::Ask(job, result)).await;
                } else {
                    let sending = backend.send(&key, command.clone());
                    let answer =
                        move |result: OpResult<_>| result.unwrap_or_else(|error| command.failed(error));
                    self.follow(node, sending, answer).await;
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
            let inputs =
                move |results| answers(sent, results).map(move |answer| Input::Answer { node, answer });
            self.start(backend.send_batch(batch), inputs).await;
        }
    }

    /// [`start`](Worker::start) for one command that may have been answered already.
    async fn follow<T: Send + 'static>(
        &mut self,
        node: usize,
        sending: Sending<T>,
        answer: impl FnOnce(OpResult<T>) -> MemberReply + Send + 'static,
    ) {
        match sending {
            Sending::Ready(result) => self.coordinator.answered(now(), node, answer(result)),
            Sending::Pending(future) => {
                self.start(future, move |result| [Input::Answer { node, answer: answer(result) }]).await;
            }
        }
    }

    /// Fixes the place of commands in the order. The coordinator gets their inputs, now or later.
    async fn start<T: Send + 'static, I: IntoIterator<Item = Input>>(
        &mut self,
        mut future: BoxFuture<T>,
        inputs: impl FnOnce(T) -> I + Send + 'static,
    ) {
        match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            Poll::Ready(output) => inputs(output).into_iter().for_each(|input| self.handle(input)),
            Poll::Pending => {
                let inbox = self.inbox.clone();
                tokio::spawn(async move {
                    // Sending fails only when the coordinator has ended together with the manager.
                    inputs(future.await).into_iter().for_each(|input| drop(inbox.send(input)));
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

fn now() -> Now {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Now { time: clock::now(), wall: u64::try_from(wall.as_micros()).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::quorum::effect::NewLink;
    use crate::backend::redis::{Origin, RedisConfig};
    use crate::backend::{EarlierCommands, Notifications, Push, ServerTime};

    /// Every event of the link causes another input, which causes the next event.
    struct Echo(mpsc::UnboundedSender<Input>);

    impl Events for Echo {
        fn link(&self, event: LinkEvent) {
            let pushes = match event {
                LinkEvent::Notifications(Notifications::On) => Notifications::Off,
                _ => Notifications::On,
            };
            drop(self.0.send(Input::Listens { node: 0, pushes }));
        }

        fn push(&self, _: Push) {}
    }

    /// The first probe of the servers is due from the beginning.
    #[tokio::test]
    async fn timers_fire_although_inputs_come_without_pause() {
        const TTL: Duration = Duration::from_secs(2);
        let configs =
            (1..=3).map(|port| RedisConfig::new(&format!("redis://127.0.0.1:{port}"), "a").unwrap());
        let quorum = QuorumBackend::new(configs.collect(), TTL).unwrap();
        let (inbox, outbox) = mpsc::unbounded_channel();
        for node in 0..3 {
            let (sent, run_id) = (clock::now(), node.to_string());
            let (server_time, longest_ttl) = (ServerTime(now().wall), Duration::ZERO);
            let origin = Origin { run_id, server_time, attested: None, met: None, longest_ttl, fences: 0 };
            let (earlier, pushes) = (EarlierCommands::Ended, Notifications::Off);
            let link = NewLink { sent, earlier, pushes, origin };
            inbox.send(Input::Joined { node, link }).unwrap();
        }
        let coordinator = Coordinator::new(quorum.names.clone(), TTL, 1);
        let mut worker = Worker::new(&quorum, coordinator, Arc::new(Echo(inbox.clone())), inbox);
        // The worker lets other tasks run after a number of inputs.
        let mut polls = 0;
        let polled_again = poll_fn(|_| {
            polls += 1;
            if polls == 10 { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = worker.work(outbox) => unreachable!("it works without end"),
            () = polled_again => {}
        }
        assert!(worker.coordinator.formation.fired.is_some());
    }
}
