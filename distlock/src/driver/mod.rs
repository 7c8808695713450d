//! Carries out what the engine says: on the calling task where somebody awaits the answer, otherwise on the
//! I/O thread. Nothing here decides about locks.
//!
//! A command's place in the order of execution is fixed by the first poll of its future, so every command is
//! polled once, in the engine's order, before anything is awaited. A future that is dropped half-way hands
//! its command to the I/O thread: every reply reaches the engine exactly once.

mod acquiring;
mod in_flight;
mod io_thread;
mod releasing;
mod several;

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use event_listener::Event;
use tokio::sync::{oneshot, watch};

use crate::backend::{Backend, Events, LinkEvent, Op, OpError, OpResult, Push, Sending};
use crate::clock;
use crate::engine::cell::HoldCell;
use crate::engine::{Context, Effect, Effects, Engine, Outcome, Verdict};
use crate::trace;
pub(crate) use acquiring::acquire;
use in_flight::{Answer, InFlight, Mine, pair};
use io_thread::IoThread;
pub(crate) use releasing::{Failed, Released, begin, extend, release};
pub(crate) use several::acquire_together;

/// Keys are spread over so many mutexes.
const SHARDS: usize = 32;

/// How a request ended, with the lock in hand if it was acquired: dropping it anywhere lets go.
#[derive(Debug)]
pub(crate) enum Settled {
    Acquired(Grip),
    Not(Outcome),
}

/// Whoever made a request.
#[derive(Debug)]
pub(crate) struct Requester {
    answer: oneshot::Sender<Settled>,
    alive: Arc<Alive>,
}

/// The engine with everything around it. Kept alive by its own I/O thread; ends with the last [`Alive`].
pub(crate) struct Core {
    pub(crate) id: u64,
    pub(crate) client: Arc<str>,
    pub(crate) engine: Engine<Requester>,
    pub(crate) backend: Arc<dyn Backend>,
    io: IoThread,
    link: watch::Sender<LinkSeen>,
    /// Holds that somebody has in hand.
    grips: AtomicUsize,
    /// Commands that the I/O thread awaits.
    handed_over: AtomicUsize,
    /// Signalled when one of the two counters above has gone down.
    quieter: Event,
}

/// What is known of the link by those who wait for it.
#[derive(Clone, Debug)]
pub(crate) enum LinkSeen {
    NotYet,
    Up,
    Down(OpError),
}

/// Managers, requests and guards keep one; when the last is gone the I/O thread finishes what is under way
/// and ends.
#[derive(Debug)]
pub(crate) struct Alive {
    core: Arc<Core>,
}

impl Alive {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.core.io.stop();
    }
}

/// A hold in somebody's hand. Dropping it lets go, in the background.
pub(crate) struct Grip {
    pub(crate) alive: Arc<Alive>,
    pub(crate) cell: Arc<HoldCell>,
    let_go: AtomicBool,
}

impl Grip {
    fn new(alive: Arc<Alive>, cell: Arc<HoldCell>) -> Self {
        alive.core.grips.fetch_add(1, Ordering::Relaxed);
        Grip { alive, cell, let_go: AtomicBool::new(false) }
    }

    /// True for the first caller only.
    fn lets_go(&self) -> bool {
        !self.let_go.swap(true, Ordering::AcqRel)
    }
}

impl fmt::Debug for Grip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grip").field(&self.cell).finish()
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        let core = &self.alive.core;
        if self.lets_go() {
            let (_, effects) = core.engine.release(clock::now(), &self.cell);
            core.perform(effects, None);
        }
        core.grips.fetch_sub(1, Ordering::Relaxed);
        core.quieter.notify(usize::MAX);
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Core {
    /// Starts a manager's inner life. `wire` is given the core before the I/O thread runs.
    pub(crate) fn start(
        client: Arc<str>,
        backend: Arc<dyn Backend>,
        tuning: &crate::backend::Tuning,
        seed: u64,
    ) -> Arc<Alive> {
        let core = Arc::new(Core {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            engine: Engine::new(&client, tuning, SHARDS, seed),
            client,
            backend,
            io: IoThread::default(),
            link: watch::Sender::new(LinkSeen::NotYet),
            grips: AtomicUsize::new(0),
            handed_over: AtomicUsize::new(0),
            quieter: Event::new(),
        });
        core.io.start(&core);
        Arc::new(Alive { core })
    }

    /// Carries out effects, and what comes of them.
    fn perform(self: &Arc<Self>, effects: Effects<Requester>, mut mine: Option<&mut Mine>) {
        let mut rearm = effects.rearm;
        let mut todo = VecDeque::from(effects.list);
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::Send(context, op) => {
                    if let Some((verdict, more)) = self.send(context, op, mine.as_deref_mut()) {
                        if let (Some(mine), Some(verdict)) = (mine.as_deref_mut(), verdict) {
                            mine.verdict = Some(verdict);
                        }
                        rearm |= more.rearm;
                        todo.extend(more.list);
                    }
                }
                Effect::SendTogether(batch) => {
                    if let Some(more) = self.send_together(batch, mine.as_deref_mut()) {
                        rearm |= more.rearm;
                        todo.extend(more.list);
                    }
                }
                Effect::Done(requester, outcome) => Self::settle(requester, outcome),
                Effect::Lost(cell, reason) => {
                    trace::lost(&cell, reason);
                    cell.notify();
                }
                Effect::Renewed(cell) => trace::renewed(&cell),
            }
        }
        if rearm {
            self.io.rearm();
        }
    }

    /// Sends one command. If it was answered at once: what the answer means for `mine`, and what to do next.
    fn send(
        self: &Arc<Self>,
        context: Context,
        op: Op,
        mine: Option<&mut Mine>,
    ) -> Option<(Option<Verdict>, Effects<Requester>)> {
        let is_mine = mine.as_ref().is_some_and(|mine| mine.interest.covers(&context.purpose));
        let result = match self.backend.send(&context.key, op) {
            Sending::Ready(result) => result,
            Sending::Pending(mut answer) => match poll_once(answer.as_mut()) {
                Poll::Ready(result) => result,
                Poll::Pending => {
                    self.await_answer(InFlight::One(context, answer), mine.filter(|_| is_mine));
                    return None;
                }
            },
        };
        let (verdict, effects) = self.engine.reply(clock::now(), context, result);
        Some((is_mine.then_some(verdict), effects))
    }

    /// Sends one command for several keys. If it was answered at once: what to do next.
    fn send_together(
        self: &Arc<Self>,
        batch: Vec<(Context, Op)>,
        mine: Option<&mut Mine>,
    ) -> Option<Effects<Requester>> {
        let ops = batch.iter().map(|(context, op)| (context.key.clone(), op.clone())).collect();
        let contexts: Vec<Context> = batch.into_iter().map(|(context, _)| context).collect();
        let mut answer = self.backend.send_together(ops);
        match poll_once(answer.as_mut()) {
            Poll::Ready(results) => Some(self.engine.reply_together(clock::now(), pair(contexts, results))),
            Poll::Pending => {
                self.await_answer(InFlight::Together(contexts, answer), mine);
                None
            }
        }
    }

    /// The caller awaits the answer itself if it wants it and awaits none yet.
    fn await_answer(self: &Arc<Self>, in_flight: InFlight, mine: Option<&mut Mine>) {
        match mine {
            Some(mine) if mine.in_flight.is_none() => mine.in_flight = Some(in_flight),
            _ => self.await_elsewhere(in_flight),
        }
    }

    fn answered(self: &Arc<Self>, answer: Answer, mut mine: Option<&mut Mine>) {
        let now = clock::now();
        let effects = match answer {
            Answer::One(context, result) => {
                let (verdict, effects) = self.engine.reply(now, context, result);
                if let Some(mine) = mine.as_deref_mut() {
                    mine.verdict = Some(verdict);
                }
                effects
            }
            Answer::Together(answers) => self.engine.reply_together(now, answers),
        };
        self.perform(effects, mine);
    }

    fn await_elsewhere(self: &Arc<Self>, in_flight: InFlight) {
        let core = self.clone();
        self.on_io_thread(async move {
            let answer = in_flight.await;
            core.answered(answer, None);
        });
    }

    fn on_io_thread(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.handed_over.fetch_add(1, Ordering::Relaxed);
        let core = self.clone();
        self.io.spawn(async move {
            work.await;
            core.handed_over.fetch_sub(1, Ordering::Relaxed);
            core.quieter.notify(usize::MAX);
        });
    }

    fn settle(requester: Requester, outcome: Outcome) {
        let Requester { answer, alive } = requester;
        let settled = match outcome {
            Outcome::Acquired(cell) => Settled::Acquired(Grip::new(alive, cell)),
            other => Settled::Not(other),
        };
        // If nobody takes it, it is dropped right here, and a grip lets go.
        drop(answer.send(settled));
    }

    /// What is due. Renewals go out in one batch.
    fn fire_timers(self: &Arc<Self>) {
        let effects = self.engine.timer(clock::now());
        self.perform_batched(effects);
    }

    fn perform_batched(self: &Arc<Self>, mut effects: Effects<Requester>) {
        let mut contexts = Vec::new();
        let mut batch = Vec::new();
        let mut rest = Vec::new();
        for effect in effects.list.drain(..) {
            match effect {
                Effect::Send(context, op @ Op::Renew { .. }) => {
                    batch.push((context.key.clone(), op));
                    contexts.push(context);
                }
                other => rest.push(other),
            }
        }
        effects.list = rest;
        self.perform(effects, None);
        if batch.is_empty() {
            return;
        }
        let core = self.clone();
        let mut answers = self.backend.send_batch(batch);
        let at_once = poll_once(answers.as_mut());
        match at_once {
            Poll::Ready(results) => core.all_answered(contexts, results),
            Poll::Pending => self.on_io_thread(async move {
                let results = answers.await;
                core.all_answered(contexts, results);
            }),
        }
    }

    fn all_answered(self: &Arc<Self>, contexts: Vec<Context>, results: Vec<OpResult>) {
        for (context, result) in pair(contexts, results) {
            self.answered(Answer::One(context, result), None);
        }
    }

    /// Becomes ready after `d`; needs no runtime of the caller's.
    pub(crate) async fn sleep(&self, d: Duration) {
        self.io.sleep(d).await;
    }

    /// Waits until the link is up, or down with a reason, for at most `d`.
    pub(crate) async fn link_within(&self, d: Duration, until_up: bool) -> LinkSeen {
        let mut seen = self.link.subscribe();
        let reached = async {
            let found = seen.wait_for(|link| match link {
                LinkSeen::NotYet => false,
                LinkSeen::Up => true,
                LinkSeen::Down(_) => !until_up,
            });
            found.await.map(|link| link.clone()).unwrap_or(LinkSeen::NotYet)
        };
        tokio::select! {
            link = reached => link,
            () = self.sleep(d) => self.link.borrow().clone(),
        }
    }

    /// The key was taken away from whoever had it, or may have been.
    pub(crate) fn ask_whether_held(self: &Arc<Self>, key: &Arc<str>) {
        let effects = self.engine.ask_whether_held(clock::now(), key);
        self.perform(effects, None);
    }

    /// No more acquisitions.
    pub(crate) fn close(self: &Arc<Self>) {
        let effects = self.engine.close(clock::now());
        self.perform(effects, None);
    }

    pub(crate) fn lose_all(self: &Arc<Self>) {
        let effects = self.engine.lose_all(clock::now());
        self.perform(effects, None);
    }

    /// Holds that somebody has in hand.
    pub(crate) fn grips(&self) -> usize {
        self.grips.load(Ordering::Relaxed)
    }

    /// Waits until `quiet` says so, at most `d`. Looks whenever a hold or a command has ended.
    pub(crate) async fn quiet_within(&self, d: Duration, quiet: impl Fn(&Core) -> bool) -> bool {
        let settled = async {
            loop {
                let quieter = self.quieter.listen();
                if quiet(self) {
                    return;
                }
                quieter.await;
            }
        };
        tokio::select! {
            biased;
            () = settled => true,
            () = self.sleep(d) => quiet(self),
        }
    }

    /// Nothing is under way and nothing is owed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed) == 0 && self.engine.outstanding().owed == 0
    }

    /// Releases that the server has not confirmed.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.engine.outstanding().owed
    }

    /// Why the I/O thread could not be started, if it could not.
    pub(crate) fn defect(&self) -> Option<String> {
        self.io.defect()
    }
}

impl Events for Core {
    fn link(&self, event: LinkEvent) {
        let seen = match &event {
            LinkEvent::Up { .. } => Some(LinkSeen::Up),
            LinkEvent::Down { cause } => Some(LinkSeen::Down(cause.clone())),
            LinkEvent::Pushes(_) => None,
        };
        let news = !matches!(*self.link.borrow(), LinkSeen::Down(_));
        trace::link(&*self.backend, &event, news);
        let Some(core) = self.io.core() else { return };
        let effects = self.engine.link(clock::now(), &event);
        core.perform_batched(effects);
        if let Some(seen) = seen {
            self.link.send_replace(seen);
        }
    }

    fn push(&self, push: Push) {
        let Some(core) = self.io.core() else { return };
        let effects = self.engine.push(clock::now(), push);
        core.perform(effects, None);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("client", &self.client)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

/// Lets a command take its place without waiting for the answer.
fn poll_once<T>(future: Pin<&mut (dyn Future<Output = T> + Send)>) -> Poll<T> {
    future.poll(&mut TaskContext::from_waker(Waker::noop()))
}
