//! A process with the real driver: its futures, its commands in flight, its shards, alarm and timers. The world polls
//! its tasks, as if each had its own thread, and is its store and its clock.

mod callers;
mod steps;
mod store;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::config::Config;
use crate::driver::{AcquireResult, Alive, Core, Executor, Failed, LeaseHandle};
use crate::engine::Outcome;
use crate::error::LostReason;
use crate::lease_cell::{LeaseCell, Ticket};
use crate::observe::{Event, Observer, Observers};
use crate::protocol::ServerTime;
use crate::simulation::tasks::{TaskId, Tasks};
use distlock_store::kit::sync::Locked;
use store::SimulatedStore;
pub(super) use store::{Outgoing, Place};

/// The caller whose task waits for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Caller {
    Request(usize),
    /// A request for several keys.
    Group(usize),
}

/// A result for a caller.
#[derive(Debug)]
enum Told {
    One(usize, AcquireResult),
    All(usize, Vec<LeaseHandle>, Option<Outcome>),
    /// The reply to a request's release or extension.
    Confirmed(usize, Result<(), Failed>),
    /// The end of a request's hand-over, the server's time when it began, and how long the ticket is valid.
    HandedOver(usize, ServerTime, Result<(Arc<LeaseCell>, Duration), Failed>),
}

/// A reported loss: the label of the hold, the key and the reason.
type Loss = (String, String, LostReason);

#[derive(Default)]
struct Losses(Locked<Vec<Loss>>);

impl Observer for Losses {
    fn event(&self, event: &Event<'_>) {
        if let Event::Lost { lock: lost, reason, .. } = event {
            self.0.lock().push((lost.label.to_string(), lost.key.to_string(), *reason));
        }
    }
}

/// The driver of one process, and its callers.
pub(super) struct Driver {
    alive: Arc<Alive>,
    tasks: Arc<Tasks>,
    store: SimulatedStore,
    losses: Arc<Losses>,
    told: Arc<Locked<Vec<Told>>>,
    /// The tasks of callers who wait for locks.
    waiting: HashMap<Caller, TaskId>,
    /// Requests whose callers are no longer polled since their commands were sent, until the callers look again.
    left: HashSet<usize>,
    /// The handles that callers have.
    handles: HashMap<usize, Arc<LeaseHandle>>,
    /// The holds that the oracle knows.
    seen: HashSet<Ticket>,
    next_ticket: u64,
}

impl Driver {
    pub(super) fn new(name: &Arc<str>, cfg: &Config, seed: u64) -> Driver {
        let (tasks, store, losses) =
            (Arc::<Tasks>::default(), SimulatedStore::default(), Arc::<Losses>::default());
        let observers = Observers::default().and(losses.clone());
        let backend = Arc::new(store.clone());
        let executor = Executor::Simulated(Arc::clone(&tasks));
        let settings = (&cfg.tuning_of_process(), cfg.shards);
        let alive = Core::start_on(executor, name.clone(), backend, settings, seed, observers);
        Driver {
            alive,
            tasks,
            store,
            losses,
            told: Arc::default(),
            waiting: HashMap::new(),
            left: HashSet::new(),
            handles: HashMap::new(),
            seen: HashSet::new(),
            next_ticket: 1,
        }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        self.alive.core()
    }

    /// The work that is left although no caller wants anything.
    pub(super) fn leftovers(&self) -> Option<String> {
        let (handles, tasks) = (self.core().lease_handles(), self.tasks.len());
        // One task is the I/O thread itself.
        (handles > 0 || tasks != 1 || !self.core().is_idle())
            .then(|| format!("{handles} lease handles and {tasks} tasks"))
    }

    fn caller_of(&self, id: TaskId) -> Option<Caller> {
        self.waiting.iter().find(|(_, task)| **task == id).map(|(caller, _)| *caller)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // From now on nothing is sent, and nothing awaited.
        self.store.goes_down();
        // The tasks own the core, which owns the tasks.
        self.tasks.abort_all();
        self.handles.clear();
        self.tasks.abort_all();
    }
}
