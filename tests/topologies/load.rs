//! Several processes that work on a few keys during all faults of a test, and the result.

use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};

use distlock_tests::{Event, Fault, FencedRegister, History, LockClient, RedisServer, residue, shared_clock};
use tokio::sync::{Semaphore, SemaphorePermit};

const WRITER: &str = env!("CARGO_BIN_EXE_fenced-writer");
const PROCESSES: usize = 3;
const SLOW: usize = 4;
/// The number of sections of the hot key that every process must complete before a fault, and again after it.
const ENOUGH: usize = 100;
/// The time limit for a test that hangs. A successful test needs far less.
const BOUND: Duration = Duration::from_secs(180);
/// Longer than the leases of the writers and the sessions of their processes.
const STANDSTILL: Duration = Duration::from_secs(7);
const PAUSE: Duration = Duration::from_millis(2);

/// The number of tests at a time. Servers that treat each other as dead after a second or two of silence need enough
/// CPU time.
static AT_A_TIME: Semaphore = Semaphore::const_new(3);

/// Waits for a turn. Call this before any server is started.
pub(crate) async fn turn() -> SemaphorePermit<'static> {
    AT_A_TIME.acquire().await.expect("never closed")
}

/// The keys of the load.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// Always held by a process, for a few milliseconds each.
    pub(crate) hot: String,
    /// Held for about a second each, so a fault hits holders in the middle of their sections.
    pub(crate) slow: Vec<String>,
}

impl Keys {
    /// The hot key `name`, and slow keys that end with a number.
    pub(crate) fn of(name: &str) -> Self {
        Self { hot: name.to_owned(), slow: (0..SLOW).map(|number| format!("{name}-{number}")).collect() }
    }

    /// Keys in the cluster slot of `key`.
    pub(crate) fn with_tag(key: &str) -> Self {
        Self::of(&format!("{{{key}}}"))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.hot.as_str()).chain(self.slow.iter().map(String::as_str))
    }
}

/// Processes at work.
pub(crate) struct Load {
    keys: Keys,
    writers: Vec<LockClient>,
    register: FencedRegister,
    history: History,
    /// The ends of the hot key's sections.
    completed: Vec<Vec<Duration>>,
    errors: BTreeMap<String, usize>,
    fault: Option<Duration>,
}

impl Load {
    /// Starts the processes and waits until each of them works.
    pub(crate) fn start(url: &str, keys: Keys) -> Self {
        let register = FencedRegister::start();
        let writers: Vec<_> = (0..PROCESSES).map(|_| spawn(url, &register, &keys)).collect();
        for writer in &writers {
            writer.expect("ready");
        }
        let completed = vec![Vec::new(); PROCESSES];
        let (history, errors) = (History::default(), BTreeMap::new());
        let mut load = Self { keys, writers, register, history, completed, errors, fault: None };
        load.works();
        load
    }

    /// Starts one more process, which must work even if the others cannot.
    pub(crate) fn another(&mut self, url: &str) {
        let writer = spawn(url, &self.register, &self.keys);
        writer.expect("ready");
        self.writers.push(writer);
        self.completed.push(Vec::new());
        self.those_work(self.writers.len() - 1);
    }

    /// The fault happens now. Times are counted from here.
    pub(crate) fn fault(&mut self) {
        self.fault.get_or_insert_with(shared_clock);
    }

    /// Waits until every process has completed sections that it entered after this call.
    pub(crate) fn works(&mut self) {
        self.those_work(0);
    }

    /// Waits in the same way, for the processes from number `first` on.
    fn those_work(&mut self, first: usize) {
        let (since, start) = (shared_clock(), Instant::now());
        let mut done = vec![0; self.writers.len()];
        while done[first..].iter().any(|&count| count < ENOUGH) {
            assert!(start.elapsed() < BOUND, "sections of each process: {done:?}; errors: {:?}", self.errors);
            for (number, done) in done.iter_mut().enumerate() {
                while let Some(event) = self.writers[number].try_next() {
                    *done += usize::from(self.note(number, &event).is_some_and(|entered| entered > since));
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stops the first process (SIGSTOP), lets the others work until its leases have expired, and then resumes it.
    pub(crate) fn one_stands_still(&mut self) {
        self.writers[0].stop();
        // The slow keys, all of which it may hold, must have got another holder, too.
        self.those_work(1);
        let since = shared_clock();
        while shared_clock() < since + STANDSTILL {
            self.those_work(1);
        }
        self.writers[0].cont();
    }

    /// Stops every process (SIGSTOP) repeatedly until the servers are `ready`, and changes the servers before the
    /// processes resume.
    pub(crate) fn while_nobody_works<S>(
        &self,
        servers: &mut S,
        ready: impl Fn(&S) -> bool,
        act: impl FnOnce(&mut S),
    ) {
        let start = Instant::now();
        self.writers.iter().for_each(LockClient::stop);
        while !ready(servers) {
            assert!(start.elapsed() < BOUND, "the servers never come to that state");
            self.writers.iter().for_each(LockClient::cont);
            std::thread::sleep(PAUSE);
            self.writers.iter().for_each(LockClient::stop);
        }
        act(servers);
        self.writers.iter().for_each(LockClient::cont);
    }

    /// Waits until every process has failed to reach the servers.
    pub(crate) fn fails(&mut self) {
        self.fails_by(&["Unavailable"]);
    }

    /// Waits until a request of every process has failed, because of the servers or because its wait ended.
    pub(crate) fn gets_nothing(&mut self) {
        self.fails_by(&["Unavailable", "Busy"]);
    }

    fn fails_by(&mut self, kinds: &[&str]) {
        let start = Instant::now();
        let mut failed = vec![false; self.writers.len()];
        while failed.contains(&false) {
            assert!(
                start.elapsed() < BOUND,
                "processes that have failed: {failed:?}; errors: {:?}",
                self.errors
            );
            for (number, failed) in failed.iter_mut().enumerate() {
                while let Some(event) = self.writers[number].try_next() {
                    *failed |= kinds.contains(&event.text("kind"));
                    self.note(number, &event);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Records an event. For a completed section of the hot key, returns when it was entered.
    fn note(&mut self, number: usize, event: &Event) -> Option<Duration> {
        match event.name() {
            "section" => {
                let section = event.section(&format!("process {number}"));
                let hot = (section.key == self.keys.hot).then_some(section.entered);
                if hot.is_some() {
                    self.completed[number].push(section.left);
                }
                self.history.add(section);
                hot
            }
            "error" => {
                let kind = event.text("kind");
                assert!(["Unavailable", "Lost", "Busy"].contains(&kind), "{event:?}");
                *self.errors.entry(kind.to_owned()).or_default() += 1;
                None
            }
            _ => panic!("{event:?}"),
        }
    }

    /// Lets all processes finish, and returns the result. `servers` may have keys that were left.
    pub(crate) async fn finish(mut self, servers: &[RedisServer]) -> Outcome {
        let end = shared_clock();
        for writer in &mut self.writers {
            writer.send("stop");
        }
        for number in 0..self.writers.len() {
            loop {
                let event = self.writers[number].next();
                if event.name() == "done" {
                    break;
                }
                self.note(number, &event);
            }
        }
        let left: usize = servers.iter().map(|server| residue::keys(server).len()).sum();
        let start = Instant::now();
        residue::none_below(servers, "").await;
        let residue = (left > 0).then(|| (left, start.elapsed()));
        let pause = longest_pause(self.completed.concat(), self.fault.expect("a fault"), end);
        let (accepted, refused) = self.judge_the_register();
        assert!(!self.history.is_empty(), "nothing was recorded");
        let faults = self.history.faults();
        let (overlaps, disorders): (Vec<_>, Vec<_>) =
            faults.into_iter().partition(|fault| matches!(fault, Fault::Overlap(..)));
        let sections = self.history.len();
        let errors = self.errors;
        Outcome { sections, accepted, refused, overlaps, disorders, pause, residue, errors }
    }

    /// Asserts that no accepted write had the token of another section or an older one.
    fn judge_the_register(&self) -> (usize, usize) {
        let (mut accepted, mut refused) = (0, 0);
        for key in self.keys.all() {
            let mut last = 0;
            for write in self.register.journal(key) {
                if write.accepted {
                    assert!(write.fence > last, "`{key}`: {} was accepted after {last}", write.fence);
                    (last, accepted) = (write.fence, accepted + 1);
                } else {
                    refused += 1;
                }
            }
        }
        (accepted, refused)
    }
}

fn spawn(url: &str, register: &FencedRegister, keys: &Keys) -> LockClient {
    let mut command = Command::new(WRITER);
    LockClient::spawn(command.args([url, &register.url(), &keys.hot, &keys.slow.join(",")]))
}

/// The longest time without a completed section that ended after the fault.
fn longest_pause(mut completed: Vec<Duration>, fault: Duration, end: Duration) -> Duration {
    completed.retain(|&at| at > fault && at < end);
    completed.sort();
    let before = std::iter::once(fault).chain(completed.iter().copied());
    let pauses = before.zip(&completed).map(|(before, &after)| after - before);
    pauses.max().unwrap_or_else(|| end.saturating_sub(fault))
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) sections: usize,
    pub(crate) accepted: usize,
    /// The number of writes that the register refused because of their token.
    pub(crate) refused: usize,
    pub(crate) overlaps: Vec<Fault>,
    /// Sections whose token is older than that of an earlier one.
    pub(crate) disorders: Vec<Fault>,
    pub(crate) pause: Duration,
    /// The number of keys that were left on the servers when all processes had finished, and how long they stayed.
    pub(crate) residue: Option<(usize, Duration)>,
    pub(crate) errors: BTreeMap<String, usize>,
}

impl Outcome {
    /// Asserts that no promise was broken.
    #[track_caller]
    pub(crate) fn assert_exclusive(&self) {
        assert!(
            self.overlaps.is_empty(),
            "{} overlaps, the first: {:#?}",
            self.overlaps.len(),
            self.overlaps[0]
        );
        assert!(self.disorders.is_empty(), "{:#?}", self.disorders[0]);
    }

    /// For servers that may lose confirmed writes: two holders may believe in one lock, and only then may tokens be out
    /// of order. That the register refused those writes was already judged.
    #[track_caller]
    pub(crate) fn assert_fenced(&self) {
        if self.overlaps.is_empty() {
            self.assert_exclusive();
        }
        assert!(self.accepted > 0, "{self:#?}");
    }
}
