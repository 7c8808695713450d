//! A `redis-server` of our own for each test, a backend running against it, and a record of what it reports.

use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};
use tokio::sync::oneshot;

use super::test_operations::SendTo;
use super::{RedisBackend, RedisConfig};
use crate::backend::{Backend, Events, LinkEvent, OpResult, Push, Sending};

/// Nothing here takes nearly as long, unless it never comes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same where several servers have to agree first.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// The server's binary: another version is named by the environment variable `DISTLOCK_TEST_SERVER`.
pub(super) fn server_binary() -> String {
    std::env::var("DISTLOCK_TEST_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until `done` says so, and returns how long that took.
pub(in crate::backend) fn wait_until(
    what: &str,
    time_limit: Duration,
    mut done: impl FnMut() -> bool,
) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < time_limit, "{what}: not within {time_limit:?}");
        thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// A server on a free loopback port; gone with the value.
pub(in crate::backend) struct TestServer {
    child: Child,
    pub(in crate::backend) port: u16,
    /// A directory of its own, so that no other one's data is loaded.
    dir: PathBuf,
    args: Vec<String>,
}

impl TestServer {
    pub(in crate::backend) fn start(args: &[&str]) -> TestServer {
        TestServer::start_with(|| args.iter().map(|&arg| arg.to_owned()).collect())
    }

    /// A port that was free a moment ago may be taken by now, one among the arguments too: then others are
    /// tried.
    pub(in crate::backend) fn start_with(args: impl Fn() -> Vec<String>) -> TestServer {
        for _ in 0..20 {
            let mut server = TestServer::spawn_on(free_port(), args());
            if server.answers() {
                return server;
            }
        }
        panic!("redis-server does not start on any port: does `redis-server --version` work?");
    }

    fn spawn_on(port: u16, args: Vec<String>) -> TestServer {
        let dir = std::env::temp_dir().join(format!("distlock-test-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let child = spawn(port, &dir, &args);
        TestServer { child, port, dir, args }
    }

    pub(in crate::backend) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// On the same port, without data.
    pub(in crate::backend) fn start_again(&mut self) {
        drop(std::fs::remove_file(self.dir.join("dump.rdb")));
        self.child = spawn(self.port, &self.dir, &self.args);
        assert!(self.answers(), "redis-server does not start again on port {}", self.port);
    }

    /// Waits for any answer (it may ask for a password). False if the process has ended instead; then what
    /// answers on its port is somebody else.
    fn answers(&mut self) -> bool {
        let start = Instant::now();
        loop {
            let answer = self.try_connect();
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            match answer {
                Ok(()) => return true,
                Err(error) => assert!(
                    start.elapsed() < PATIENCE,
                    "redis-server does not answer on port {}: {error}",
                    self.port
                ),
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_connect(&self) -> std::io::Result<()> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0])
    }

    pub(in crate::backend) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(in crate::backend) fn connection(&self) -> Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// The same, but nothing where the connection breaks or the command fails.
    pub(in crate::backend) fn try_run<T: FromRedisValue>(&self, command: &str) -> Option<T> {
        let mut connection = redis::Client::open(self.url()).ok()?.get_connection().ok()?;
        redis::Cmd::new().arg(command.split(' ').collect::<Vec<_>>()).query(&mut connection).ok()
    }

    /// Runs one command, its words separated by blanks.
    pub(in crate::backend) fn run<T: FromRedisValue>(&self, command: &str) -> T {
        self.run_words(&command.split(' ').collect::<Vec<_>>())
    }

    pub(in crate::backend) fn run_words<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut cmd = redis::Cmd::new();
        cmd.arg(words);
        cmd.query(&mut self.connection()).unwrap()
    }

    pub(in crate::backend) fn stop(&self) {
        self.signal("-STOP");
    }

    pub(in crate::backend) fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// The ids of the connections of `client` that carry commands.
    pub(in crate::backend) fn command_ids(&self, client: &str) -> Vec<String> {
        self.client_ids(|line| is_command_connection(line, client))
    }

    /// The ids and names of the clients that match `what`, from CLIENT LIST.
    pub(in crate::backend) fn client_ids(&self, what: impl Fn(&str) -> bool) -> Vec<String> {
        let list: String = self.run("CLIENT LIST");
        list.lines()
            .filter(|line| what(line))
            .filter_map(|line| line.strip_prefix("id=")?.split(' ').next().map(str::to_owned))
            .collect()
    }
}

/// Whether a line of CLIENT LIST is about a connection of `client` that is not the one for pushes.
pub(super) fn is_command_connection(line: &str, client: &str) -> bool {
    line.contains(&format!(" name={client} ")) && line.contains(" sub=0 ")
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

fn spawn(port: u16, dir: &Path, args: &[String]) -> Child {
    Command::new(server_binary())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(dir)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect(
            "these tests need `redis-server` (7.0 or newer) on the PATH: install the package redis-server",
        )
}

/// Whatever a backend reports.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Link(LinkEvent),
    Push(Push),
}

#[derive(Default)]
pub(super) struct Recorder {
    seen: Mutex<Vec<Seen>>,
    more: Condvar,
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
}

/// A backend with an I/O thread of its own.
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
        let events = Arc::new(Recorder::default());
        let (stop, stopped) = oneshot::channel();
        let run = Arc::clone(&backend).run(Arc::clone(&events) as Arc<dyn Events>);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = run => unreachable!("a backend runs for ever"),
                    _ = stopped => {}
                }
            });
        });
        Rig { backend, events, read: Mutex::new(0), stop: Some(stop), thread: Some(thread) }
    }

    pub(in crate::backend) fn wait_until_up(&self) -> (bool, crate::backend::Pushes) {
        self.wait_for("Up", |seen| match seen {
            Seen::Link(LinkEvent::Up { former_links_dead, pushes }) => Some((*former_links_dead, *pushes)),
            _ => None,
        })
    }

    pub(super) fn wait_for_down(&self) -> crate::backend::OpError {
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
            Seen::Link(_) => None,
        })
    }

    /// Everything reported so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.events.seen.lock().unwrap().clone()
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
                // Nobody listens after the first time.
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
