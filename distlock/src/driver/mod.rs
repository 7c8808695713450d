//! Executes the engine's effects, and passes replies to the engine: on the calling task if it awaits the reply,
//! otherwise where the reply is read. The driver never decides about locks.
//!
//! The first poll of a command's future fixes its place in the order of execution. So every command is polled once, in
//! the engine's order, before anything is awaited. If a future is dropped before its reply has arrived, its command
//! continues without it ([`unawaited`]). So every reply reaches the engine exactly once.

mod acquiring;
mod acquiring_all;
mod alarm;
mod alive;
mod answer;
mod deadlocks;
mod ending;
mod events;
mod executor;
mod idle;
mod in_flight;
mod io_thread;
mod lease_handle;
mod link;
mod long_lasting;
mod nested_watch;
mod ownership;
mod release_report;
mod releasing;
mod reports;
pub(crate) mod shards;
mod take_over;
mod timers;
mod unawaited;
mod vitals;
mod who;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::Backend;
use crate::backend::fail_all::fail_all;
use crate::contained::{Panicked, contained};
pub(crate) use crate::engine::Failed;
use crate::engine::{self, Answer, Command, Confirmation, Context, Effect, Outcome};
use crate::lease_cell::Ticket;
use crate::listeners::Listeners;
use crate::observe::{Behind, Event as Happened, Lock, Observers};
use crate::outage::Outage;
use crate::process::{self, Process};
use crate::protocol::{Time, Tuning, mutated, op};
pub(crate) use acquiring::{PendingAcquire, acquire};
pub(crate) use acquiring_all::acquire_all;
pub(crate) use alive::Alive;
use distlock_store::clock;
use distlock_store::kit::sync::Locked;
pub(crate) use executor::Executor;
use idle::{HandedOver, Unanswered};
use in_flight::{
    Answered, AwaitedCommand, AwaitedKind, Begun, InFlight, all_unanswered, batch_answers, begin, begin_one,
};
use io_thread::IoThread;
pub(crate) use lease_handle::LeaseHandle;
pub(crate) use link::LinkSeen;
use long_lasting::LongLasting;
pub(crate) use long_lasting::{Lasting, Watched};
use nested_watch::NestedWaits;
pub(crate) use nested_watch::{Around, NestedWait};
#[cfg(test)]
pub(crate) use release_report::MOST_IN_BACKGROUND;
pub(crate) use releasing::{Released, begin_hold, extend, hand_over, release};
pub(crate) use reports::{NestedReport, report_acquired};
use shards::{Effects, Shards};
use take_over::TakeOverTimer;
use unawaited::{Unawaited, Woken};
use vitals::Vitals;
use who::Myself;
pub(crate) use who::Published;

/// The number of mutexes over which the keys are spread.
pub(crate) const SHARDS: usize = 32;

/// The result of a request. If the lock was acquired, it contains the lease handle, whose drop releases the lock.
#[derive(Debug)]
pub(crate) enum AcquireResult {
    Acquired(LeaseHandle),
    Not(Outcome),
}

/// The caller of a request.
#[derive(Debug)]
pub(crate) struct Requester {
    answer: answer::AnswerSender<AcquireResult>,
    alive: Arc<Alive>,
}

/// The engine, and the state of the driver. Its own I/O thread keeps it alive. It ends with the last [`Alive`].
pub(crate) struct Core {
    pub(crate) id: u64,
    pub(crate) client: Arc<str>,
    pub(crate) engine: Shards<Requester>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) observers: Observers,
    pub(crate) vitals: Vitals,
    long_lasting: LongLasting,
    nested_waits: NestedWaits,
    myself: Myself,
    io: IoThread,
    link: watch::Sender<LinkSeen>,
    /// Whether the manager was shut down.
    closed: watch::Sender<bool>,
    /// The current outage.
    outage: Locked<Option<Outage>>,
    /// Whether the backend's task was restarted, so commands of earlier links may still be applied.
    begun_anew: AtomicBool,
    /// Whether the backend was notified that the manager ends.
    backend_closed: AtomicBool,
    made_in: Process,
    /// The failures that a test has ordered for requests.
    #[cfg(feature = "testing")]
    pub(crate) faults: crate::fault::Faults,
    /// The number of lease handles in use.
    lease_handles: AtomicUsize,
    /// How many of them belong to a hold that has ended, and whose release is awaited.
    releasing: AtomicUsize,
    /// The number of releases that were sent and have no reply.
    unanswered_releases: Arc<AtomicUsize>,
    /// The number of commands that no caller awaits.
    handed_over: AtomicUsize,
    /// The number of releases that their sections do not await.
    in_background: AtomicUsize,
    /// The number of tasks that wait until no handle is in use and no command is without a caller.
    idle_waiters: AtomicUsize,
    /// Notified when one of these two numbers was decremented.
    idle_changed: Listeners,
    /// The commands that callers poll.
    take_over_timer: Arc<TakeOverTimer>,
    /// The commands without a caller whose replies have arrived.
    woken: Woken,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Core {
    /// Starts a manager's engine and I/O thread.
    pub(crate) fn start(
        client: Arc<str>,
        backend: Arc<dyn Backend>,
        tuning: &Tuning,
        seed: u64,
        observers: Observers,
    ) -> Arc<Alive> {
        let core = Arc::new(Core::new(client, backend, tuning, SHARDS, seed, observers));
        core.io.start(&core);
        Arc::new(Alive::new(core))
    }

    /// Starts a manager's engine in a simulated world, which polls its tasks.
    pub(crate) fn start_on(
        executor: Executor,
        client: Arc<str>,
        backend: Arc<dyn Backend>,
        (tuning, shards): (&Tuning, usize),
        seed: u64,
        observers: Observers,
    ) -> Arc<Alive> {
        let core = Arc::new(Core::new(client, backend, tuning, shards, seed, observers));
        core.io.run_on(&core, executor);
        Arc::new(Alive::new(core))
    }

    fn new(
        client: Arc<str>,
        backend: Arc<dyn Backend>,
        tuning: &Tuning,
        shards: usize,
        seed: u64,
        observers: Observers,
    ) -> Core {
        Core {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            engine: Shards::new(&client, tuning, shards, seed),
            client,
            backend,
            observers,
            vitals: Vitals::new(),
            long_lasting: LongLasting::default(),
            nested_waits: NestedWaits::default(),
            myself: Myself::default(),
            io: IoThread::new(),
            link: watch::Sender::new(LinkSeen::NotYet),
            closed: watch::Sender::new(false),
            outage: Locked::default(),
            begun_anew: AtomicBool::new(false),
            backend_closed: AtomicBool::new(false),
            made_in: Process::current(),
            #[cfg(feature = "testing")]
            faults: crate::fault::Faults::default(),
            lease_handles: AtomicUsize::new(0),
            releasing: AtomicUsize::new(0),
            unanswered_releases: Arc::default(),
            handed_over: AtomicUsize::new(0),
            in_background: AtomicUsize::new(0),
            idle_waiters: AtomicUsize::new(0),
            idle_changed: Listeners::default(),
            take_over_timer: Arc::new(TakeOverTimer::new()),
            woken: Woken::default(),
        }
    }

    /// Executes effects, and the effects that result from them. All of them are executed even if one panics in the
    /// program's log subscriber or in a waker.
    fn perform(self: &Arc<Self>, effects: Effects<Requester>, mut command: Option<&mut AwaitedCommand>) {
        let mut todo = effects;
        let mut unawaited = Vec::new();
        while let Some(effect) = todo.list.pop_front() {
            match contained(|| self.carry_out(effect, command.as_deref_mut(), &mut unawaited)) {
                Ok(Some(more)) => todo.join(more),
                Ok(None) => {}
                // The effect that panicked may have been about to request it.
                Err(_) => todo.rearm = true,
            }
        }
        if todo.rearm && rearms_are_passed_on() {
            self.io.rearm();
        }
        // Their replies may have further effects, which come after all effects of this event.
        for in_flight in unawaited {
            self.leave_unawaited(in_flight);
        }
    }

    fn carry_out(
        self: &Arc<Self>,
        effect: Effect<Requester>,
        mut command: Option<&mut AwaitedCommand>,
        unawaited: &mut Vec<InFlight>,
    ) -> Option<Effects<Requester>> {
        match effect {
            Effect::Send(context, sent) => {
                let (confirmation, more) = self.send(context, sent, command.as_deref_mut(), unawaited)?;
                if let (Some(command), Some(confirmation)) = (command, confirmation) {
                    command.confirmation = Some(confirmation);
                }
                return Some(more);
            }
            Effect::SendAcquireAll(batch) => return self.send_acquire_all(batch, command, unawaited),
            Effect::Done(requester, outcome) => Self::complete(requester, outcome),
            Effect::Lost(cell, reason) => {
                self.myself.count_lost();
                // First, because observers may be slow, and a body must not run on for that time.
                cell.notify();
                self.report_lost(&cell, reason);
            }
            Effect::NotTaken { cell, after } => {
                self.observers.tell(&Happened::NotTaken { lock: Lock::of(&cell), after });
            }
            Effect::Renewed { cell, left } => self.report_renewed(&cell, left),
            Effect::Queued { key, label, kind, waiting } => {
                let behind = Behind::AnotherProcess;
                self.observers.tell(&Happened::Queued { label: &label, key: &key, kind, waiting, behind });
            }
        }
        None
    }

    /// Handles one event and its effects. `Err`: the engine itself has panicked.
    fn event(
        self: &Arc<Self>,
        event: impl FnOnce(&Shards<Requester>, Time) -> Effects<Requester>,
    ) -> Result<(), Panicked> {
        let effects = contained(|| event(&self.engine, clock::now())).inspect_err(|_| self.io.rearm())?;
        self.perform(effects, None);
        Ok(())
    }

    /// Sends one command. If the reply arrived immediately, returns its meaning for `command`, and the next effects.
    fn send(
        self: &Arc<Self>,
        context: Context,
        sent: Command,
        command: Option<&mut AwaitedCommand>,
        unawaited: &mut Vec<InFlight>,
    ) -> Option<(Option<Confirmation>, Effects<Requester>)> {
        let is_awaited = command.as_ref().is_some_and(|command| command.kind.covers(&context, &sent));
        let (backend, key, made_in) = (&self.backend, &context.key, &self.made_in);
        let begun = match sent {
            Command::Acquire(asked, op) => match begin_one(made_in, || backend.send_acquire(key, op)) {
                Begun::Answered(result) => Ok((context, Answer::Acquire(asked, result))),
                Begun::UnderWay(answer) => Err(InFlight::Acquire(context, asked, answer.into())),
            },
            Command::Replace(asked, op) => match begin_one(made_in, || backend.send_replace(key, op)) {
                Begun::Answered(result) => Ok((context, Answer::Acquire(asked, result))),
                Begun::UnderWay(answer) => Err(InFlight::Acquire(context, asked, answer.into())),
            },
            Command::Release(asked, op) => match begin_one(made_in, || backend.send_release(key, op)) {
                Begun::Answered(result) => Ok((context, Answer::Release(asked, result))),
                Begun::UnderWay(answer) => {
                    let unanswered = Unanswered::new(&self.unanswered_releases);
                    Err(InFlight::Release(context, asked, answer.into(), Some(unanswered)))
                }
            },
            Command::Renew(asked, op) => match begin_one(made_in, || backend.send_renew(key, op)) {
                Begun::Answered(result) => Ok((context, Answer::Renew(asked, result))),
                Begun::UnderWay(answer) => Err(InFlight::Renew(context, asked, answer.into())),
            },
        };
        match begun {
            Ok((context, answer)) => {
                let now = self.now_answered(&answer.done());
                let (confirmation, effects) = self.engine.reply(now, context, answer);
                Some((is_awaited.then_some(confirmation), effects))
            }
            Err(in_flight) => {
                self.await_answer(in_flight, command.filter(|_| is_awaited), unawaited);
                None
            }
        }
    }

    /// Sends one command for several keys. If the reply arrived immediately, returns the next effects.
    fn send_acquire_all(
        self: &Arc<Self>,
        batch: Vec<(Context, engine::AcquirePurpose, op::Acquire)>,
        command: Option<&mut AwaitedCommand>,
        unawaited: &mut Vec<InFlight>,
    ) -> Option<Effects<Requester>> {
        let ops = batch.iter().map(|(context, _, op)| (context.key.clone(), *op)).collect();
        let asked: Vec<_> = batch.into_iter().map(|(context, asked, _)| (context, asked)).collect();
        if self.made_in.is_any_other() {
            let results = fail_all(asked.len(), &process::forked());
            return Some(self.engine.on_acquire_all_reply(clock::now(), batch_answers(asked, results)));
        }
        let results = match contained(|| begin(self.backend.send_acquire_all(ops))) {
            Ok(Begun::Answered(results)) => results,
            Ok(Begun::UnderWay(answer)) => {
                self.await_answer(InFlight::AcquireAll(asked, answer.into()), command, unawaited);
                return None;
            }
            Err(panicked) => all_unanswered(asked.len(), panicked),
        };
        Some(self.engine.on_acquire_all_reply(clock::now(), batch_answers(asked, results)))
    }

    /// The caller awaits the reply itself if it requested that and awaits no other reply.
    fn await_answer(
        self: &Arc<Self>,
        in_flight: InFlight,
        command: Option<&mut AwaitedCommand>,
        unawaited: &mut Vec<InFlight>,
    ) {
        match command {
            Some(command) if !command.is_under_way() => command.begins(self, in_flight),
            _ => unawaited.push(in_flight),
        }
    }

    fn answered(self: &Arc<Self>, answered: Answered, mut command: Option<&mut AwaitedCommand>) {
        let effects = contained(|| match answered {
            Answered::One(context, answer, _unanswered) => {
                let now = self.now_answered(&answer.done());
                let (confirmation, effects) = self.engine.reply(now, context, answer);
                if let Some(command) = command.as_deref_mut() {
                    command.confirmation = Some(confirmation);
                }
                effects
            }
            Answered::AcquireAll(answers) => {
                let now = answers.first().map_or_else(clock::now, |(.., result)| self.now_answered(result));
                self.engine.on_acquire_all_reply(now, answers)
            }
        });
        match effects {
            Ok(effects) => self.perform(effects, command),
            Err(_) => self.io.rearm(),
        }
    }

    /// A command has ended now.
    fn now_answered<T, E>(&self, result: &Result<T, E>) -> Time {
        let now = clock::now();
        if result.is_ok() {
            self.vitals.answered(now);
        }
        now
    }

    /// The reply reaches the engine without a caller that awaits it.
    fn leave_unawaited(self: &Arc<Self>, in_flight: InFlight) {
        let mut command = AwaitedCommand::new(AwaitedKind::None);
        command.begins(self, in_flight);
        Unawaited::start(self, command, None);
    }

    fn on_io_thread(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        // Decremented however the work ends, even if the thread ends.
        let handed_over = HandedOver::new(self.clone());
        self.io.spawn(async move {
            work.await;
            drop(handed_over);
        });
    }

    /// Cancels a request. Its caller has closed the other end for the answer: otherwise the engine, which drops its own
    /// while it holds its mutex, would wake a task there.
    fn cancel(self: &Arc<Self>, key: &Arc<str>, ticket: Ticket) {
        let (requester, effects) = self.engine.on_key(clock::now(), key, |step| step.cancel(ticket));
        drop(requester);
        self.perform(effects, None);
    }

    fn complete(requester: Requester, outcome: Outcome) {
        let Requester { answer, alive } = requester;
        let result = match outcome {
            Outcome::Acquired(cell) => AcquireResult::Acquired(LeaseHandle::new(alive, cell)),
            other => {
                if matches!(other, Outcome::Busy { .. }) {
                    alive.core().myself.count_busy();
                }
                AcquireResult::Not(other)
            }
        };
        // If the caller was dropped, the result is dropped here. A lease handle in it releases the lock.
        drop(answer.give(result));
    }

    /// Runs work on the I/O thread that the end of the manager does not wait for.
    pub(crate) fn aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.io.spawn(work);
    }

    /// Becomes ready after `d`. It does not need a runtime of the caller.
    pub(crate) async fn sleep(&self, d: Duration) {
        self.io.sleep(d).await;
    }

    /// Asks the store about a key that was, or may have been, released by force.
    pub(crate) fn ask_whether_held(self: &Arc<Self>, key: &Arc<str>) {
        if !self.is_forked() {
            drop(self.event(|engine, now| engine.on_key(now, key, |step| step.ask_whether_held()).1));
        }
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

/// A rule that tests can break: the I/O thread is notified of a timer that is due before its next check.
fn rearms_are_passed_on() -> bool {
    !mutated!(RearmForgotten)
}
