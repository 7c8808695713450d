//! A separate server for each test, a backend that uses it, and a record of the backend's reports.

use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use distlock_fixtures::RedisServer;
pub(in crate::backend) use distlock_fixtures::{free_port, wait_until};
use tokio::sync::oneshot;

use super::test_operations::SendTo;
use super::{RedisBackend, RedisConfig};
use crate::backend::{
    Backend, EarlierCommands, Events, LinkEvent, Notifications, OpResult, Push, PushHint, Sending, Who,
};

/// A bound for every wait, much longer than any wait that succeeds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same where several servers have to agree first.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// A separate server for a test. See [`RedisServer`].
#[derive(Debug)]
pub(in crate::backend) struct TestServer {
    server: RedisServer,
    pub(in crate::backend) port: u16,
}

impl TestServer {
    /// With further options of its command line: names and values in turn.
    pub(in crate::backend) fn start(args: &[&str]) -> TestServer {
        TestServer::from(RedisServer::options().arguments(args).start())
    }

    pub(in crate::backend) fn url(&self) -> String {
        self.server.url()
    }

    pub(in crate::backend) fn stop(&self) {
        self.server.stop();
    }

    pub(in crate::backend) fn kill(&mut self) {
        self.server.kill9();
    }

    /// On the same port, without data.
    pub(in crate::backend) fn start_again(&mut self) {
        self.server.restart_empty();
    }

    pub(in crate::backend) fn resume(&self) {
        self.server.cont();
    }

    /// How many scripts it has run (`calls`), or has sent elsewhere (`rejected_calls`).
    pub(super) fn scripts(&self, count: &str) -> u64 {
        let stats: String = self.run("INFO commandstats");
        let counts = stats.lines().filter_map(|line| {
            let verbs = ["evalsha", "eval"];
            let fields = verbs.iter().find_map(|verb| line.strip_prefix(&format!("cmdstat_{verb}:")))?;
            let value = fields.split(',').find_map(|field| field.strip_prefix(&format!("{count}=")))?;
            value.trim().parse::<u64>().ok()
        });
        counts.sum()
    }

    /// The ids of the connections of `client` that carry commands.
    pub(in crate::backend) fn command_ids(&self, client: &str) -> Vec<String> {
        self.client_ids(|line| is_command_connection(line, client))
    }
}

impl From<RedisServer> for TestServer {
    fn from(server: RedisServer) -> Self {
        TestServer { port: server.port(), server }
    }
}

impl Deref for TestServer {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.server
    }
}

/// Whether a line of CLIENT LIST is about a connection of `client` that is not the one for pushes.
pub(super) fn is_command_connection(line: &str, client: &str) -> bool {
    line.contains(&format!(" name={client} ")) && line.contains(" sub=0 ")
}

/// For how many whole seconds `client` has sent no command.
pub(super) fn idle_seconds(server: &TestServer, client: &str) -> u64 {
    let list = server.text(&["CLIENT", "LIST"]);
    let line = list.lines().find(|line| is_command_connection(line, client));
    let idle = line.and_then(|line| line.split(' ').find_map(|field| field.strip_prefix("idle=")));
    idle.and_then(|idle| idle.parse().ok()).unwrap_or_default()
}

/// Lets this time pass, for a test that an event does not happen, or does not happen often. No event ends such a wait.
/// For events that happen, use [`wait_until`].
pub(super) fn let_pass(time: Duration) {
    thread::sleep(time);
}

/// The reports of a backend.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Link(LinkEvent),
    Push(Push),
    Hint(PushHint),
}

#[derive(Default)]
pub(super) struct Recorder {
    seen: Mutex<Vec<Seen>>,
    more: Condvar,
    /// The next time that it is asked who this process is, it panics.
    panics: AtomicBool,
}

impl Recorder {
    fn record(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
        self.more.notify_all();
    }
}

impl Events for Recorder {
    fn link(&self, event: LinkEvent) {
        self.record(Seen::Link(event));
    }

    fn push(&self, push: Push) {
        self.record(Seen::Push(push));
    }

    fn notice(&self, hint: PushHint) {
        self.record(Seen::Hint(hint));
    }

    fn who(&self) -> Option<Who> {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a task of the backend panics on purpose");
        None
    }
}

/// A backend with its own I/O thread.
pub(super) struct Rig<B: Backend = RedisBackend> {
    pub(super) backend: Arc<B>,
    events: Arc<Recorder>,
    read: Mutex<usize>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rig {
    pub(super) fn start(config: RedisConfig) -> Rig {
        Rig::run(RedisBackend::new(config).unwrap())
    }

    /// A rig that is connected and listens for pushes.
    pub(super) fn up(server: &TestServer, client: &str) -> Rig {
        let rig = Rig::start(RedisConfig::new(&server.url(), client).unwrap());
        rig.wait_until_up();
        rig
    }
}

impl<B: Backend> Rig<B> {
    pub(super) fn run(backend: Arc<B>) -> Rig<B> {
        Rig::report_to(Recorder::default(), backend)
    }

    /// The task that introduces this process panics once.
    pub(super) fn run_with_a_panic(backend: Arc<B>) -> Rig<B> {
        Rig::report_to(Recorder { panics: AtomicBool::new(true), ..Recorder::default() }, backend)
    }

    fn report_to(events: Recorder, backend: Arc<B>) -> Rig<B> {
        let events = Arc::new(events);
        let (stop, stopped) = oneshot::channel();
        let run = Arc::clone(&backend).run(Arc::clone(&events) as Arc<dyn Events>);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = run => unreachable!("a backend runs without end"),
                    _ = stopped => {}
                }
            });
        });
        Rig { backend, events, read: Mutex::new(0), stop: Some(stop), thread: Some(thread) }
    }

    pub(in crate::backend) fn wait_until_up(&self) -> (EarlierCommands, Notifications) {
        self.wait_for("Up", |seen| match seen {
            Seen::Link(LinkEvent::Up { earlier, pushes }) => Some((*earlier, *pushes)),
            _ => None,
        })
    }

    /// Waits for the next `Up` with pushes. On a slow machine, pushes may be reported later. Returns whether earlier
    /// commands may arrive.
    pub(super) fn wait_until_pushed(&self) -> EarlierCommands {
        let (earlier, pushes) = self.wait_until_up();
        if pushes == Notifications::Off {
            self.wait_for("pushes", |seen| match seen {
                Seen::Link(
                    LinkEvent::Up { pushes: Notifications::On, .. }
                    | LinkEvent::Notifications(Notifications::On),
                ) => Some(()),
                _ => None,
            });
        }
        earlier
    }

    pub(super) fn wait_for_down(&self) -> crate::backend::StoreError {
        self.wait_for("Down", |seen| match seen {
            Seen::Link(LinkEvent::Down { cause }) => Some(cause.clone()),
            _ => None,
        })
    }

    /// The next report, of those not waited for yet, from which `pick` makes something.
    pub(super) fn wait_for<T>(&self, what: &str, pick: impl Fn(&Seen) -> Option<T>) -> T {
        let start = Instant::now();
        let mut read = self.read.lock().unwrap();
        let mut seen = self.events.seen.lock().unwrap();
        loop {
            while let Some(next) = seen.get(*read) {
                *read += 1;
                if let Some(found) = pick(next) {
                    return found;
                }
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "no {what} among {:#?}", *seen);
            seen = self.events.more.wait_timeout(seen, left).unwrap().0;
        }
    }

    pub(super) fn wait_for_push(&self) -> Push {
        self.wait_for("push", |seen| match seen {
            Seen::Push(push) => Some(push.clone()),
            Seen::Link(_) | Seen::Hint(_) => None,
        })
    }

    /// Everything reported so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.events.seen.lock().unwrap().clone()
    }

    /// Asserts that the link was made once, and that nothing else was reported. On a slow machine, pushes may be
    /// reported later.
    pub(super) fn has_one_link(&self) {
        let mut seen = self.seen();
        seen.retain(|seen| !matches!(seen, Seen::Link(LinkEvent::Notifications(Notifications::On))));
        assert_eq!(seen.len(), 1, "one Up and nothing else: {seen:?}");
    }

    /// Sends, and waits for the reply on this thread, which has no runtime.
    pub(super) fn send<O: SendTo<B>>(&self, key: &str, op: O) -> OpResult<O::Reply> {
        finish(op.send_to(&self.backend, &Arc::from(key)))
    }

    /// Sends, as far as the operation's place in the order is fixed.
    pub(super) fn begin<O: SendTo<B>>(&self, key: &str, op: O) -> JoinHandle<OpResult<O::Reply>> {
        let (began, begun) = std::sync::mpsc::channel();
        let sending = op.send_to(&self.backend, &Arc::from(key));
        let waiting = thread::spawn(move || match sending {
            Sending::Ready(result) => result,
            Sending::Pending(mut future) => block_on(std::future::poll_fn(move |cx| {
                let poll = future.as_mut().poll(cx);
                // After the first time, there is no receiver.
                let _ = began.send(());
                poll
            })),
        });
        begun.recv_timeout(PATIENCE).unwrap();
        waiting
    }
}

impl<B: Backend> Drop for Rig<B> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub(super) fn finish<T>(sending: Sending<T>) -> OpResult<T> {
    match sending {
        Sending::Ready(result) => result,
        Sending::Pending(future) => block_on(future),
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The plainest executor there is.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(start.elapsed() < 2 * PATIENCE, "a future that should always become ready does not");
        thread::park_timeout(PATIENCE);
    }
}
