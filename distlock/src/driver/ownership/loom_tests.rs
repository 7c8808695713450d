//! The take-over of a command, under every order of its caller, the I/O thread and the store.
//!
//! [`Ownership`] and [`Stage`] are the real ones. Around them are copies of the steps of `CallerPolled`,
//! `AwaitedCommand` and `Unawaited`, with the same locking, because the parts of the real ones (a runtime, a store's
//! future) do not run under loom. A thread that waits for a missing wake-up fails the model, because loom notices that
//! no thread can continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread;

use super::{After, Found, Ownership};
use crate::driver::unawaited::stage::{Next, Stage};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

fn wake(waker: Option<Waker>) {
    waker.map(Waker::wake);
}

/// A waker rings it, and one thread waits for it.
struct Bell {
    is_rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn new() -> Arc<Bell> {
        Arc::new(Bell { is_rung: Mutex::new(false), changed: Condvar::new() })
    }

    fn ring(&self) {
        *lock(&self.is_rung) = true;
        self.changed.notify_one();
    }

    fn is_rung(&self) -> bool {
        *lock(&self.is_rung)
    }

    fn wait(&self) {
        let mut is_rung = lock(&self.is_rung);
        while !*is_rung {
            is_rung = self.changed.wait(is_rung).unwrap();
        }
        *is_rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

/// The account of the command and its answer. It does not use loom's atomics, which would add orders to explore.
#[derive(Default)]
struct Account {
    executed: AtomicUsize,
    /// The number of commands that were dropped before they were executed.
    lost: AtomicUsize,
    answers_dropped: AtomicUsize,
}

fn add(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn read(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

/// Created by the store when it has executed the command.
struct Answer(Arc<Account>);

impl Drop for Answer {
    fn drop(&mut self) {
        add(&self.0.answers_dropped);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Ended;

type Said = Result<Answer, Ended>;

/// Wakes the last poller of the command.
struct Store(Mutex<Asked>);

struct Asked {
    is_ready: bool,
    waker: Option<Waker>,
}

impl Store {
    fn is_ready(&self) {
        let waker = {
            let mut asked = lock(&self.0);
            asked.is_ready = true;
            asked.waker.take()
        };
        wake(waker);
    }
}

/// The store's future, and the command's turn. Others wait until the turn is dropped.
struct Command {
    store: Arc<Store>,
    account: Arc<Account>,
    is_executed: bool,
    turn_over: Arc<Bell>,
}

impl Command {
    fn poll(&mut self, waker: &Waker) -> Poll<Answer> {
        let mut asked = lock(&self.store.0);
        assert!(!self.is_executed, "polled again after it was executed");
        if !asked.is_ready {
            asked.waker = Some(waker.clone());
            return Poll::Pending;
        }
        self.is_executed = true;
        add(&self.account.executed);
        Poll::Ready(Answer(self.account.clone()))
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if !self.is_executed {
            add(&self.account.lost);
        }
        // After a failure of the model, a message of loom would hide the failure.
        if !std::thread::panicking() {
            self.turn_over.ring();
        }
    }
}

/// The runtime of the I/O thread.
struct Runtime {
    task: Option<Command>,
    has_ended: bool,
}

/// Like `CallerPolled`.
struct Shared {
    ownership: Mutex<Ownership<Command, Said>>,
    runtime: Mutex<Runtime>,
    /// Rung when the I/O thread has work, or when the turn is over.
    bell: Arc<Bell>,
}

impl Shared {
    /// After the end of the runtime, the command is dropped, and the teller answers.
    fn carry_on(&self, command: Command) {
        let mut runtime = lock(&self.runtime);
        if !runtime.has_ended {
            runtime.task = Some(command);
            drop(runtime);
            self.bell.ring();
            return;
        }
        drop(runtime);
        drop(command);
        self.answer(Err(Ended));
    }

    fn answer(&self, said: Said) {
        let (waker, unwanted) = lock(&self.ownership).answer(said);
        drop(unwanted);
        wake(waker);
    }

    fn take_over(&self) {
        let command = lock(&self.ownership).take_over();
        if let Some(command) = command {
            self.carry_on(command);
        }
    }

    /// Ends a command that the caller has or passes on.
    fn end(&self) {
        let shared = lock(&self.ownership).end(Err(Ended));
        if let Some((command, waker)) = shared {
            drop(command);
            wake(waker);
        }
    }

    /// Polls the command that it has taken over.
    fn run_task(&self) {
        let task = lock(&self.runtime).task.take();
        let Some(mut command) = task else { return };
        match command.poll(&self.bell.clone().into()) {
            Poll::Pending => lock(&self.runtime).task = Some(command),
            Poll::Ready(answer) => self.answer(Ok(answer)),
        }
    }

    /// The I/O thread works until the turn is over. It would wait forever if it were not notified of its work.
    fn work(&self, account: &Account) {
        while read(&account.executed) + read(&account.lost) == 0 {
            self.bell.wait();
            self.run_task();
        }
    }

    /// The runtime ends, and drops its tasks.
    fn end_runtime(&self) {
        let task = {
            let mut runtime = lock(&self.runtime);
            runtime.has_ended = true;
            runtime.task.take()
        };
        if let Some(command) = task {
            drop(command);
            self.answer(Err(Ended));
        }
    }
}

/// Like `AwaitedCommand`.
struct Caller(Arc<Shared>);

impl Caller {
    fn poll(&self, waker: &Waker) -> Poll<Said> {
        let mut mine = Some(waker.clone());
        let found = lock(&self.0.ownership).poll(&mut mine);
        match found {
            Found::Work(command, former) => {
                drop(former);
                self.poll_work(command, mine, waker)
            }
            Found::Answer(answer) => Poll::Ready(answer),
            Found::WithIoThread => Poll::Pending,
            Found::Nothing => panic!("a caller that waits has nothing to wait for"),
        }
    }

    fn poll_work(&self, mut command: Command, mine: Option<Waker>, waker: &Waker) -> Poll<Said> {
        let Poll::Ready(answer) = command.poll(waker) else {
            let after = lock(&self.0.ownership).put_back(command, mine);
            return match after {
                After::Stays => Poll::Pending,
                After::TakenOver(command) => {
                    self.0.carry_on(command);
                    Poll::Pending
                }
                After::Ends(command, mine) => {
                    drop(mine);
                    drop(command);
                    Poll::Ready(Err(Ended))
                }
            };
        };
        lock(&self.0.ownership).ready();
        drop(command);
        Poll::Ready(Ok(answer))
    }

    /// Each poll has another waker, and the last one counts.
    fn wait(&self) -> Said {
        loop {
            let bell = Bell::new();
            if let Poll::Ready(said) = self.poll(&bell.clone().into()) {
                return said;
            }
            bell.wait();
        }
    }
}

/// Like `Unawaited`. Every thread that wakes it also polls it.
struct Unawaited(Mutex<Stage<Caller>>);

impl Unawaited {
    fn start(caller: Caller) {
        Arc::new(Unawaited(Mutex::new(Stage::Waits(caller)))).poll();
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(self.clone());
        loop {
            let begun = lock(&self.0).begin_poll();
            let Some(caller) = begun else { return };
            if caller.poll(&waker).is_ready() {
                return lock(&self.0).ready();
            }
            let next = lock(&self.0).put_back(caller);
            match next {
                Next::Wait => return,
                Next::PollAgain => {}
                Next::Drop(_) => panic!("its command has been answered at the end"),
            }
        }
    }
}

impl Wake for Unawaited {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// The behaviour of the I/O thread in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IoThread {
    /// It awaits the commands that it gets.
    Works,
    CallsAndWorks,
    Ends,
    /// It takes the command over, which removes it from the timer's register, and then ends.
    CallsAndEnds,
    CallsWorksAndEnds,
}

const ENDS: [IoThread; 3] = [IoThread::Ends, IoThread::CallsAndEnds, IoThread::CallsWorksAndEnds];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreIs {
    Ready,
    Silent,
}

/// Runs a caller, the I/O thread and the store, each on its own thread. If one of them does not finish, the model
/// fails. No command may be lost, except at the end of the I/O thread.
fn meet(
    does: IoThread,
    store_is: StoreIs,
    caller: impl Fn(Caller, Others) -> Option<Said> + Send + Sync + 'static,
) {
    loom::model(move || {
        let account = Arc::new(Account::default());
        let store = Arc::new(Store(Mutex::new(Asked { is_ready: false, waker: None })));
        let bell = Bell::new();
        let command = Command {
            store: store.clone(),
            account: account.clone(),
            is_executed: false,
            turn_over: bell.clone(),
        };
        let shared = Arc::new(Shared {
            ownership: Mutex::new(Ownership::WithCaller(command, None)),
            runtime: Mutex::new(Runtime { task: None, has_ended: false }),
            bell,
        });
        let (on_io_thread, counts) = (shared.clone(), account.clone());
        let io_thread = thread::spawn(move || {
            if does != IoThread::Works && does != IoThread::Ends {
                on_io_thread.take_over();
            }
            match does {
                IoThread::Works | IoThread::CallsAndWorks => on_io_thread.work(&counts),
                IoThread::Ends => {
                    on_io_thread.end_runtime();
                    // The timer still has the command.
                    on_io_thread.end();
                }
                IoThread::CallsAndEnds => on_io_thread.end_runtime(),
                IoThread::CallsWorksAndEnds => {
                    on_io_thread.run_task();
                    on_io_thread.end_runtime();
                }
            }
        });
        let mut others = vec![io_thread];
        if store_is == StoreIs::Ready {
            others.push(thread::spawn(move || store.is_ready()));
        }
        let said = caller(Caller(shared.clone()), Others(others));
        assert!(matches!(*lock(&shared.ownership), Ownership::Over), "something is kept");
        let (executed, lost) = (read(&account.executed), read(&account.lost));
        assert_eq!(executed + lost, 1, "the command is executed once, or dropped once");
        assert!(lost == 0 || ENDS.contains(&does), "the command is lost");
        if let Some(said) = said {
            assert_eq!(said.is_ok(), executed == 1, "the caller is told what happened");
        }
        assert_eq!(read(&account.answers_dropped), executed, "an answer is kept");
    });
}

/// The I/O thread and the thread of the store.
struct Others(Vec<thread::JoinHandle<()>>);

impl Others {
    fn join(self) {
        for other in self.0 {
            other.join().unwrap();
        }
    }
}

fn is_polled_to_its_end(caller: Caller, others: Others) -> Option<Said> {
    let said = caller.wait();
    others.join();
    drop(caller);
    Some(said)
}

/// Its runtime is blocked, and resumes when all others have finished.
fn is_not_polled_for_long(caller: Caller, others: Others) -> Option<Said> {
    let bell = Bell::new();
    let first = caller.poll(&bell.clone().into());
    others.join();
    if let Poll::Ready(said) = first {
        return Some(said);
    }
    assert!(bell.is_rung(), "its wake-up is lost");
    let Poll::Ready(said) = caller.poll(Waker::noop()) else { panic!("it is not told") };
    Some(said)
}

fn is_dropped(caller: Caller, others: Others) -> Option<Said> {
    let said = caller.poll(&Bell::new().into());
    if said.is_pending() {
        Unawaited::start(caller);
    }
    others.join();
    match said {
        Poll::Ready(said) => Some(said),
        Poll::Pending => None,
    }
}

fn is_never_polled(caller: Caller, others: Others) -> Option<Said> {
    Unawaited::start(caller);
    others.join();
    None
}

#[test]
fn loom_a_caller_is_answered_whoever_executes_its_command() {
    for does in [IoThread::Works, IoThread::CallsAndWorks] {
        meet(does, StoreIs::Ready, is_polled_to_its_end);
    }
}

/// In this model, the I/O thread waits for the turn. It would wait forever for a caller that keeps the command.
#[test]
fn loom_others_do_not_wait_for_a_caller_that_is_not_polled() {
    meet(IoThread::CallsAndWorks, StoreIs::Ready, is_not_polled_for_long);
}

#[test]
fn loom_a_command_goes_on_without_its_caller() {
    for does in [IoThread::Works, IoThread::CallsAndWorks] {
        meet(does, StoreIs::Ready, is_dropped);
        meet(does, StoreIs::Ready, is_never_polled);
    }
}

#[test]
fn loom_every_caller_learns_of_the_end() {
    for does in ENDS {
        for store_is in [StoreIs::Ready, StoreIs::Silent] {
            meet(does, store_is, is_polled_to_its_end);
            meet(does, store_is, is_not_polled_for_long);
        }
    }
}

#[test]
fn loom_a_caller_that_leaves_at_the_end_keeps_nothing() {
    for does in ENDS {
        for store_is in [StoreIs::Ready, StoreIs::Silent] {
            meet(does, store_is, is_dropped);
            meet(does, store_is, is_never_polled);
        }
    }
}
