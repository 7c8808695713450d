//! Many processes and one server, without faults.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::crowd::{Crowd, Inside};
use super::tally::{Purpose, Tally};
use crate::backend::memory::server::{ModelServer, Note, Sender};
use crate::engine::{
    Answer, Command, Context, Effect, EffectList, Machine, Outcome, ReleaseStarted, Renewal, WaitLimit, Want,
};
use crate::lease_cell::LeaseCell;
use crate::protocol::op::Ask;
use crate::protocol::{
    EarlierCommands, LinkEvent, LockKind, Notifications, Push, ServerTime, Time, Token, Tuning,
};
use crate::simulation::{Account, Kernel, MICRO, MILLI, SECOND};

pub(super) const TTL: Duration = Duration::from_secs(30);
/// How long a section lasts.
const BODY: u64 = MILLI;
/// One way, from a process to the server or back.
const DELAY: (u64, u64) = (100, 150);
/// The same on one machine.
const DELAY_HERE: (u64, u64) = (40, 60);
/// The requests of a fleet that starts are spread over this time.
const START: u64 = SECOND;
/// A day of 2026, in microseconds.
const EPOCH: u64 = 1_795_000_000_000_000;

/// How long the server works on a command, in nanoseconds: everything that its process does for the command, including
/// the socket. As measured by `backend::redis::growth_tests`; `docs/scale.md` has the machine and the figures.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// A plain `SET`.
    take: u64,
    /// The script that acquires, queues or keeps a place in the queue. The length of the queue does not matter.
    ask: u64,
    renew: u64,
    release: u64,
    /// The additional time to hand the lock to a waiter, and to publish that.
    hand_over: u64,
}

const MEASURED: Costs =
    Costs { take: 6 * MICRO, ask: 27 * MICRO, renew: 19 * MICRO, release: 11 * MICRO, hand_over: 25 * MICRO };

/// The work of the processes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// All processes want the same key. Each process requests it again as soon as it has released it.
    OneKey,
    /// Each runs sections of keys drawn at random, with a pause after each.
    Sections { keys: usize, pause: u64 },
    /// Together they hold all keys all the time.
    Held { keys: usize },
    /// Tasks on one key, spread over the processes.
    Crowd(Crowd),
}

impl Load {
    fn keys(self) -> usize {
        match self {
            Load::OneKey | Load::Crowd(_) => 1,
            Load::Sections { keys, .. } | Load::Held { keys } => keys,
        }
    }

    /// One way, in microseconds.
    fn delay(self) -> (u64, u64) {
        if let Load::Crowd(_) = self { DELAY_HERE } else { DELAY }
    }

    fn body(self) -> Option<u64> {
        match self {
            Load::OneKey | Load::Sections { .. } => Some(BODY),
            Load::Held { .. } => None,
            Load::Crowd(crowd) => Some(crowd.body),
        }
    }
}

#[derive(Debug)]
enum Event {
    Want { task: usize },
    Arrives { process: usize, context: Context, command: Command },
    Reply { process: usize, context: Context, command: Command, answer: Answer },
    Push { process: usize, push: Push },
    Timer { process: usize, number: u64 },
    Leave { task: usize, cell: Arc<LeaseCell> },
}

/// A task that wants a lock, again and again.
struct Task {
    process: usize,
    key: usize,
    kind: LockKind,
    /// How many sections it has had.
    sections: u32,
    asked: u64,
}

struct Process {
    name: Arc<str>,
    machine: Machine<usize>,
    /// The tasks whose releases are in progress.
    leaving: HashMap<Token, usize>,
    /// When its timer is due, and the number of that plan.
    timer: (Option<Time>, u64),
    /// When its last command arrives, and the last reply or push to it: connections keep their order.
    arrival: u64,
    reply: u64,
}

/// The fleet and its server.
pub(super) struct Fleet {
    kernel: Kernel<Event>,
    load: Load,
    costs: Costs,
    server: ModelServer,
    /// The server is busy until this time.
    busy_until: u64,
    processes: Vec<Process>,
    tasks: Vec<Task>,
    numbers: HashMap<Arc<str>, usize>,
    keys: Vec<Arc<str>>,
    /// The tasks that are in a section of each key.
    inside: Vec<Inside>,
    counting: bool,
    tally: Tally,
}

/// Lets a fleet of this size warm up for `seconds`, and then work for `seconds`. Returns what it sent in the second
/// period.
///
/// # Panics
/// If two tasks are in sections of one key, or if a request does not get its lock.
pub(super) fn work(processes: usize, load: Load, pushes: Notifications, seconds: u64) -> Tally {
    let mut fleet = Fleet::new(processes, load, pushes, Tuning::default());
    fleet.run(seconds * SECOND..2 * seconds * SECOND);
    let server_time = fleet.server_time(fleet.kernel.now);
    let (locks, queued) = fleet.server.sizes(server_time);
    let mut tally = fleet.tally;
    tally.lasted = seconds * SECOND;
    (tally.locks, tally.queued) = (locks, queued);
    tally
}

/// Lets the tasks of a crowd take the lock as often as [`Crowd::sections`] says. The tally has the duration and the
/// waiting times.
pub(super) fn take_turns(processes: usize, crowd: Crowd, tuning: Tuning) -> Tally {
    let mut fleet = Fleet::new(processes, Load::Crowd(crowd), Notifications::On, tuning);
    let began = fleet.kernel.now;
    fleet.run(began..began + 3_600 * SECOND);
    let mut tally = fleet.tally;
    assert_eq!(tally.sections, crowd.tasks() as u64 * u64::from(crowd.sections), "all are served");
    tally.lasted = tally.last_end - began;
    tally
}

fn local(now: u64) -> Time {
    Time(now)
}

fn want(kind: LockKind) -> Want {
    Want {
        kind,
        ttl: TTL,
        renewal: Renewal::Keep,
        wait_limit: WaitLimit::Forever,
        unavailable_after: Duration::from_secs(3),
        fenced: false,
        max_waiters: None,
        max_hold: None,
        min_hold: None,
        linger: None,
        replaces: None,
        own_lease: false,
        collection: None,
        label: "growth".into(),
    }
}

impl Fleet {
    fn new(count: usize, load: Load, pushes: Notifications, tuning: Tuning) -> Fleet {
        let mut fleet = Fleet {
            kernel: Kernel::new(Rng::with_seed(count as u64), Account::Omitted, 0),
            load,
            costs: MEASURED,
            server: ModelServer::new(tuning.clone()),
            busy_until: 0,
            processes: Vec::new(),
            tasks: Vec::new(),
            numbers: HashMap::new(),
            keys: (0..load.keys()).map(|key| format!("k{key}").into()).collect(),
            inside: vec![Inside::default(); load.keys()],
            counting: false,
            tally: Tally::default(),
        };
        for number in 0..count {
            fleet.add(number, pushes, tuning.clone());
        }
        match load {
            Load::OneKey => (0..count).for_each(|number| fleet.begin(START, number, 0, LockKind::Exclusive)),
            Load::Sections { keys, .. } => {
                for number in 0..count {
                    let key = fleet.kernel.rng.usize(0..keys);
                    fleet.begin(START, number, key, LockKind::Exclusive);
                }
            }
            Load::Held { keys } => {
                for number in 0..count {
                    for key in (number..keys).step_by(count) {
                        fleet.begin(TTL.as_nanos() as u64 / 3, number, key, LockKind::Exclusive);
                    }
                }
            }
            Load::Crowd(crowd) => {
                for (task, kind) in crowd.kinds().enumerate() {
                    fleet.begin(0, task % count, 0, kind);
                }
            }
        }
        fleet
    }

    fn add(&mut self, number: usize, pushes: Notifications, tuning: Tuning) {
        let name: Arc<str> = format!("p{number}").into();
        let machine = Machine::new(name.clone(), tuning, 0, 1, self.kernel.rng.u64(..));
        if pushes == Notifications::On {
            self.server.subscribe(&name);
        }
        self.numbers.insert(name.clone(), number);
        let leaving = HashMap::new();
        self.processes.push(Process { name, machine, leaving, timer: (None, 0), arrival: 0, reply: 0 });
        let up = LinkEvent::Up { earlier: EarlierCommands::Ended, pushes };
        self.enter(number, |machine, now, out| machine.link(now, &up, out));
    }

    /// Adds a task that first wants its lock within `time`.
    fn begin(&mut self, time: u64, process: usize, key: usize, kind: LockKind) {
        let task = self.tasks.len();
        self.tasks.push(Task { process, key, kind, sections: 0, asked: 0 });
        let at = self.kernel.some(time);
        self.kernel.after(at, Event::Want { task });
    }

    fn server_time(&self, now: u64) -> ServerTime {
        ServerTime(EPOCH + now / MICRO)
    }

    /// Counts from the start of `counted` to its end. Can be called once: events after the end are forgotten.
    fn run(&mut self, counted: std::ops::Range<u64>) {
        while let Some(event) = self.kernel.next(counted.end) {
            self.counting = self.kernel.now >= counted.start;
            match event {
                Event::Want { task } => self.want(task),
                Event::Arrives { process, context, command } => self.carry_out(process, context, command),
                Event::Reply { process, context, command, answer } => {
                    self.reply(process, context, &command, answer);
                }
                Event::Push { process, push } => {
                    self.enter(process, |machine, now, out| {
                        machine.step(now, push.key(), out, |step| step.on_push(&push))
                    });
                }
                Event::Timer { process, number } => {
                    if self.processes[process].timer.1 == number {
                        self.processes[process].timer.0 = None;
                        self.enter(process, |machine, now, out| machine.timer(now, out));
                    }
                }
                Event::Leave { task, cell } => self.leave(task, &cell),
            }
        }
    }

    fn want(&mut self, task: usize) {
        let Task { process, key, kind, .. } = self.tasks[task];
        self.tasks[task].asked = self.kernel.now;
        let name = self.keys[key].clone();
        self.enter(process, |machine, now, out| {
            machine.step(now, &name, out, |step| step.acquire(want(kind), task));
        });
    }

    /// Handles an event in a process, and executes the effects of its engine.
    fn enter(
        &mut self,
        process: usize,
        event: impl FnOnce(&mut Machine<usize>, Time, &mut EffectList<usize>),
    ) {
        let mut effects = EffectList::default();
        event(&mut self.processes[process].machine, local(self.kernel.now), &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(context, command) => self.send(process, context, command),
                Effect::Done(task, Outcome::Acquired(cell)) => self.acquired(task, cell),
                Effect::NotTaken { .. } | Effect::Renewed { .. } | Effect::Queued { .. } => {}
                other => panic!("process {process}: {other:?}"),
            }
        }
        let due = self.processes[process].machine.next_due();
        let (planned, number) = &mut self.processes[process].timer;
        if *planned != due {
            (*planned, *number) = (due, *number + 1);
            if let Some(due) = due {
                let number = *number;
                self.kernel.at(due.0, Event::Timer { process, number });
            }
        }
    }

    fn send(&mut self, process: usize, context: Context, command: Command) {
        let delay = self.kernel.between(self.load.delay());
        let arrival = &mut self.processes[process].arrival;
        *arrival = (self.kernel.now + delay).max(*arrival + 1);
        let at = *arrival;
        self.kernel.at(at, Event::Arrives { process, context, command });
    }

    /// The server executes a command after those that arrived before it.
    fn carry_out(&mut self, process: usize, context: Context, command: Command) {
        let mut cost = match &command {
            Command::Acquire(_, Ask::Plain(_)) => self.costs.take,
            Command::Acquire(_, Ask::Full(_)) | Command::Replace(..) => self.costs.ask,
            Command::Renew(..) => self.costs.renew,
            Command::Release(..) => self.costs.release,
        };
        let server_time = self.server_time(self.busy_until.max(self.kernel.now) + cost);
        let name = self.processes[process].name.clone();
        let from = Sender { client: &name, key: &context.key };
        let mut notes = Vec::new();
        let answer = match &command {
            Command::Acquire(asked, op) => {
                Answer::Acquire(*asked, Ok(self.server.acquire(server_time, &from, op, &mut notes)))
            }
            Command::Replace(asked, op) => {
                Answer::Acquire(*asked, Ok(self.server.replace(server_time, &from, op)))
            }
            Command::Release(asked, op) => {
                Answer::Release(*asked, Ok(self.server.release(server_time, &from, op, &mut notes)))
            }
            Command::Renew(asked, op) => Answer::Renew(*asked, Ok(self.server.renew(server_time, &from, op))),
        };
        cost += self.costs.hand_over * notes.len() as u64;
        self.busy_until = self.busy_until.max(self.kernel.now) + cost;
        if self.counting {
            self.tally.count(Purpose::of(&command, &answer));
            self.tally.busy += cost;
            self.tally.pushes += notes.len() as u64;
        }
        for note in notes {
            self.publish(note);
        }
        let at = self.arrives_back(process);
        self.kernel.at(at, Event::Reply { process, context, command, answer });
    }

    /// When a message that the server sends now arrives.
    fn arrives_back(&mut self, process: usize) -> u64 {
        let delay = self.kernel.between(self.load.delay());
        let reply = &mut self.processes[process].reply;
        *reply = (self.busy_until + delay).max(*reply + 1);
        *reply
    }

    fn publish(&mut self, note: Note) {
        let Some(process) = self.numbers.get(&note.client).copied() else { return };
        let at = self.arrives_back(process);
        self.kernel.at(at, Event::Push { process, push: note.push() });
    }

    fn reply(&mut self, process: usize, context: Context, command: &Command, answer: Answer) {
        let token = context.token;
        self.enter(process, |machine, now, out| {
            drop(machine.step(now, &context.key, out, |step| step.on_reply(&context, answer)));
        });
        // The section has ended when its release is confirmed.
        if let Some(task) = self.processes[process].leaving.remove(&token)
            && matches!(command, Command::Release(..))
        {
            self.has_left(task);
        }
    }

    fn acquired(&mut self, task: usize, cell: Arc<LeaseCell>) {
        cell.claim(local(self.kernel.now));
        let Task { process, key, kind, asked, .. } = self.tasks[task];
        assert!(self.inside[key].enters(kind), "process {process} is in a section of k{key} beside another");
        if self.counting {
            self.tally.sections += 1;
            self.tally.waited(self.kernel.now - asked);
        }
        if let Some(body) = self.load.body() {
            self.kernel.after(body, Event::Leave { task, cell });
        }
    }

    fn leave(&mut self, task: usize, cell: &LeaseCell) {
        let Task { process, key, kind, .. } = self.tasks[task];
        self.inside[key].leaves(kind);
        self.tally.last_end = self.kernel.now;
        let mut release = None;
        self.processes[process].leaving.insert(cell.token, task);
        self.enter(process, |machine, now, out| {
            release = Some(machine.step(now, &cell.key, out, |step| step.release(cell)));
        });
        if release != Some(ReleaseStarted::Sent) {
            self.processes[process].leaving.remove(&cell.token);
            self.has_left(task);
        }
    }

    fn has_left(&mut self, task: usize) {
        self.tasks[task].sections += 1;
        let pause = match self.load {
            Load::OneKey => 0,
            Load::Sections { keys, pause } => {
                self.tasks[task].key = self.kernel.rng.usize(0..keys);
                pause / 2 + self.kernel.some(pause)
            }
            Load::Held { .. } => return,
            Load::Crowd(crowd) if self.tasks[task].sections == crowd.sections => return,
            Load::Crowd(crowd) => crowd.pause,
        };
        self.kernel.after(pause, Event::Want { task });
    }
}
