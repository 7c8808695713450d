//! One process of an adapter: writes requests, reads answers, and is killed when it is dropped.

use std::{
    collections::HashMap,
    io::{self, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    time::{Duration, Instant},
};

use distlock_fixtures::signals;

use crate::protocol::{Answer, Hello, parse_answer, parse_hello};

/// Longer than an interpreter takes to start on a busy machine.
const START: Duration = Duration::from_secs(60);

/// An answer, and when the referee read it.
pub type Read = (Duration, Answer);

/// One process of an adapter.
#[derive(Debug)]
pub struct Process {
    /// Its number, which no other process of the run has.
    pub number: u64,
    /// The content of its first line.
    pub hello: Hello,
    child: Mutex<Child>,
    input: Mutex<Option<ChildStdin>>,
    listeners: Arc<Mutex<Listeners>>,
    killed: Mutex<Option<Duration>>,
}

/// The receivers of answers, by request. `None` after the output has ended.
type Listeners = Option<HashMap<u64, Sender<Read>>>;

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    /// Starts an adapter and waits for its first line.
    ///
    /// # Errors
    /// If it does not start, or its first line is not a `hello`.
    pub fn start(mut command: Command, number: u64, start: Instant) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let listeners = Arc::new(Mutex::new(Some(HashMap::new())));
        let (said_hello, hello) = mpsc::channel();
        if let Some(output) = output {
            let listeners = listeners.clone();
            std::thread::spawn(move || read(BufReader::new(output), &said_hello, &listeners, start));
        }
        let Ok(Some(hello)) = hello.recv_timeout(START) else {
            signals::kill9(&mut child);
            return Err(io::Error::other(format!("{command:?} did not begin with a line `hello …`")));
        };
        let (child, input) = (Mutex::new(child), Mutex::new(input));
        Ok(Process { number, hello, child, input, listeners, killed: Mutex::default() })
    }

    /// Announces that answers to this request will be read. The channel is closed when the process has ended.
    pub fn listen(&self, id: u64) -> Receiver<Read> {
        let (sender, receiver) = mpsc::channel();
        if let Some(listeners) = locked(&self.listeners).as_mut() {
            listeners.insert(id, sender);
        }
        receiver
    }

    /// No more answers to this request are read.
    pub fn forget(&self, id: u64) {
        if let Some(listeners) = locked(&self.listeners).as_mut() {
            listeners.remove(&id);
        }
    }

    /// Writes a line. If the process has ended, the closed channel shows it.
    pub fn write(&self, line: &str) {
        if let Some(input) = locked(&self.input).as_mut() {
            input.write_all(format!("{line}\n").as_bytes()).ok();
        }
    }

    /// SIGSTOP.
    pub fn stop(&self) {
        signals::stop(&locked(&self.child));
    }

    /// SIGCONT.
    pub fn cont(&self) {
        signals::cont(&locked(&self.child));
    }

    /// SIGKILL. `now` is read before the signal, so that no section of this process lasts longer than the process. A
    /// process that had ended by itself is not killed.
    pub fn kill(&self, now: Duration) {
        if !self.has_ended() {
            locked(&self.killed).get_or_insert(now);
        }
        signals::kill9(&mut locked(&self.child));
    }

    /// When the referee killed it.
    #[must_use]
    pub fn killed(&self) -> Option<Duration> {
        *locked(&self.killed)
    }

    /// Whether its output has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        locked(&self.listeners).is_none()
    }

    /// Closes its input, and returns whether it ends within a bound.
    #[must_use]
    pub fn finish(&self, bound: Duration) -> bool {
        drop(locked(&self.input).take());
        let (start, mut ended) = (Instant::now(), false);
        while !ended && start.elapsed() < bound {
            ended = matches!(locked(&self.child).try_wait(), Ok(Some(_)));
            std::thread::sleep(Duration::from_millis(10));
        }
        ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        signals::kill9(&mut locked(&self.child));
    }
}

fn read(
    output: impl io::BufRead,
    said_hello: &Sender<Option<Hello>>,
    listeners: &Mutex<Listeners>,
    start: Instant,
) {
    let mut lines = output.lines().map_while(Result::ok);
    said_hello.send(lines.next().and_then(|line| parse_hello(&line))).ok();
    for line in lines {
        let now = start.elapsed();
        let Some((id, answer)) = parse_answer(&line) else { continue };
        if let Some(listener) = locked(listeners).as_ref().and_then(|all| all.get(&id)) {
            // The receiver may have been dropped.
            listener.send((now, answer)).ok();
        }
    }
    locked(listeners).take();
}
