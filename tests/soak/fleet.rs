//! The client processes of a round, and their reports. They are ended by their process ids, at the latest when this is
//! dropped.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use distlock_fixtures::{Directory, SteppedClock};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    options::Store,
    record::{Failure, Line, Section},
};

/// The time limit for a process to connect, while servers may be unreachable, and to end.
const READY: Duration = Duration::from_secs(40);
const END: Duration = Duration::from_secs(60);

/// The reports of all processes so far.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) sections: Vec<Section>,
    pub(crate) failures: Vec<Failure>,
    /// The number of requests, releases and processes that did not end, of processes that ended by themselves, and of
    /// those without a section after the faults.
    pub(crate) hung: u64,
}

/// How to start a client.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// The URLs of the clients, used in turn.
    pub(crate) urls: Vec<String>,
    pub(crate) register: String,
    pub(crate) store: Store,
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    pub(crate) long_percent: u32,
    pub(crate) key_factor: u32,
}

#[derive(Debug)]
struct Client {
    child: Child,
    input: ChildStdin,
    reader: JoinHandle<()>,
    ready: mpsc::Receiver<()>,
    /// The begin of its newest section.
    entered: Arc<AtomicU64>,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    recipe: Recipe,
    clients: Vec<Client>,
    clocks: Vec<Clock>,
    log: Arc<Mutex<Log>>,
}

/// A separate wall clock for a client and its replacement.
#[derive(Debug)]
struct Clock {
    clock: SteppedClock,
    _directory: Directory,
}

impl Clock {
    fn new() -> Self {
        let directory = Directory::new("soak");
        Clock { clock: SteppedClock::new(&directory), _directory: directory }
    }
}

impl Fleet {
    /// Starts all clients, and waits until they work.
    pub(crate) fn start(recipe: &Recipe, rng: &mut Rng) -> Self {
        let log = Arc::default();
        let clocks: Vec<_> = (0..recipe.clients).map(|_| Clock::new()).collect();
        let clients: Vec<_> =
            clocks.iter().enumerate().map(|(at, clock)| launch(recipe, at, clock, rng, &log)).collect();
        for client in &clients {
            client.ready.recv_timeout(READY).expect("a client that connects to healthy servers");
        }
        Fleet { recipe: recipe.clone(), clients, clocks, log }
    }

    /// The number of sections that were reported so far.
    pub(crate) fn sections(log: &Mutex<Log>) -> usize {
        log.lock().unwrap().sections.len()
    }

    /// The reports so far.
    pub(crate) fn log(&self) -> Arc<Mutex<Log>> {
        self.log.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// kill −9, and another process replaces it.
    pub(crate) fn replace(&mut self, at: usize, rng: &mut Rng) {
        let fresh = launch(&self.recipe, at, &self.clocks[at], rng, &self.log);
        self.put(at, fresh);
    }

    fn put(&mut self, at: usize, fresh: Client) {
        let ended_by_itself = std::mem::replace(&mut self.clients[at], fresh).end();
        if ended_by_itself {
            eprintln!("client {at} ended by itself");
            self.log.lock().unwrap().hung += 1;
        }
    }

    /// SIGSTOP for a while.
    pub(crate) fn stop_for(&self, at: usize, time: Duration) {
        let pid = Pid::from_child(&self.clients[at].child);
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(time);
        kill_process(pid, Signal::CONT).unwrap();
    }

    /// The process's wall clock jumps, by seconds or by an hour.
    pub(crate) fn step_clock(&self, at: usize, rng: &mut Rng) {
        let by = Duration::from_secs(if rng.bool() { 3_600 } else { 5 });
        let clock = &self.clocks[at].clock;
        if rng.bool() { clock.forward(by) } else { clock.back(by) }
    }

    /// The number of clients that have reported no section since then.
    pub(crate) fn stuck_since(&self, calm: u64) -> usize {
        self.clients.iter().filter(|client| client.entered.load(Ordering::SeqCst) <= calm).count()
    }

    /// Lets all clients finish, and returns their reports. There are no faults since `calm`.
    pub(crate) fn finish(mut self, calm: u64) -> Log {
        let stuck = self.stuck_since(calm);
        if stuck > 0 {
            eprintln!("clients without a section after the faults: {stuck}");
            self.log.lock().unwrap().hung += stuck as u64;
        }
        for client in &mut self.clients {
            // A client that has died is noticed below.
            client.input.write_all(b"stop\n").and_then(|()| client.input.flush()).ok();
        }
        let start = Instant::now();
        for mut client in std::mem::take(&mut self.clients) {
            let ended = loop {
                match client.child.try_wait().unwrap() {
                    Some(status) => break status.success(),
                    None if start.elapsed() > END => break false,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            client.end();
            self.log.lock().unwrap().hung += u64::from(!ended);
        }
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for client in std::mem::take(&mut self.clients) {
            client.end();
        }
    }
}

impl Client {
    fn spawn(mut command: Command, log: &Arc<Mutex<Log>>) -> Client {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, ready) = mpsc::channel();
        let (log, entered) = (log.clone(), Arc::<AtomicU64>::default());
        let newest = entered.clone();
        let reader = std::thread::spawn(move || read(output, &sender, &log, &newest));
        Client { child, input, reader, ready, entered }
    }

    /// Ends the process, and waits until all its reports are read. Returns whether it had ended by itself.
    fn end(mut self) -> bool {
        let ended = self.child.try_wait().unwrap().is_some();
        // This fails only if the process has ended already.
        self.child.kill().ok();
        self.child.wait().unwrap();
        drop(self.input);
        self.reader.join().unwrap();
        ended
    }
}

fn launch(recipe: &Recipe, at: usize, clock: &Clock, rng: &mut Rng, log: &Arc<Mutex<Log>>) -> Client {
    let url = &recipe.urls[at % recipe.urls.len()];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["client", url, &recipe.register, &rng.u64(..).to_string(), &recipe.tasks.to_string()]);
    command.args([&recipe.long_percent.to_string(), &recipe.key_factor.to_string(), recipe.store.name()]);
    clock.clock.preload(&mut command);
    Client::spawn(command, log)
}

fn read(output: impl BufRead, ready: &mpsc::Sender<()>, log: &Mutex<Log>, entered: &AtomicU64) {
    let mut open: HashMap<u64, Section> = HashMap::new();
    for line in output.lines().map_while(Result::ok) {
        match Line::parse(&line) {
            // No caller waits until a replacement is ready.
            Some(Line::Ready) => drop(ready.send(())),
            Some(Line::Begun(section)) => {
                entered.fetch_max(section.times.entered, Ordering::SeqCst);
                open.insert(section.id, section);
            }
            Some(Line::Held { id, at }) => {
                if let Some(section) = open.get_mut(&id) {
                    section.times.left = at;
                }
            }
            Some(Line::Over(section)) => {
                entered.fetch_max(section.times.entered, Ordering::SeqCst);
                open.remove(&section.id);
                log.lock().unwrap().sections.push(section);
            }
            Some(Line::Failed(failure)) => log.lock().unwrap().failures.push(failure),
            Some(Line::Done { hung }) => log.lock().unwrap().hung += hung,
            // The process was killed in the middle of a line.
            None => {}
        }
    }
    log.lock().unwrap().sections.extend(open.into_values());
}

#[cfg(test)]
mod tests {
    use distlock_fixtures::eventually_blocking;

    use super::*;

    /// A client that works at 10, and then ends when it should.
    const CORRECT: &str = "echo over 1 x k 0 9 10 11 12 0 100 0 0 -; read line; echo done 0";

    fn client(script: &str, log: &Arc<Mutex<Log>>) -> Client {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Client::spawn(command, log)
    }

    fn fleet(scripts: &[&str]) -> Fleet {
        let log = Arc::default();
        let clients = scripts.iter().map(|script| client(script, &log)).collect();
        let recipe = Recipe {
            urls: Vec::new(),
            register: String::new(),
            store: Store::Redis,
            clients: scripts.len(),
            tasks: 1,
            long_percent: 100,
            key_factor: 1,
        };
        Fleet { recipe, clients, clocks: Vec::new(), log }
    }

    #[test]
    fn a_client_that_ended_by_itself_before_it_was_replaced_is_found() {
        for (script, hung) in [("exit 0", 1), ("read line", 0)] {
            let mut fleet = fleet(&[script]);
            let has_ended = |fleet: &mut Fleet| fleet.clients[0].child.try_wait().unwrap().is_some();
            eventually_blocking("the client has ended", || hung == 0 || has_ended(&mut fleet));
            let fresh = client(CORRECT, &fleet.log);
            fleet.put(0, fresh);
            eventually_blocking("the other one works", || fleet.stuck_since(9) == 0);
            assert_eq!(fleet.finish(9).hung, hung, "{script}");
        }
    }

    #[test]
    fn one_client_without_a_section_after_the_faults_is_found_although_others_work() {
        let fleet = fleet(&[CORRECT, "read line; echo done 0"]);
        eventually_blocking("one client works", || fleet.stuck_since(9) == 1);
        assert_eq!(fleet.stuck_since(10), 2, "the section began before");
        assert_eq!(fleet.finish(9).hung, 1);
    }
}
