//! Several processes with several tasks each use every kind of lock, and several keys at once, while some processes are
//! killed and some stopped. Holders that exclude each other must never hold a lock at the same time. The judge reads
//! the beliefs of each holder, from its acquisition to its release or until it noticed the loss.

use std::{collections::HashMap, time::Duration};

use distlock::testing::eventually;
use distlock_fixtures::MariaDbServer;
use distlock_tests::{
    EtcdServers, Event, Fault, History, Kind, LockClient, RedisServer, Section, ZooKeeperServers, residue,
    shared_clock,
};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

/// A client process, and its output so far.
struct Worker {
    name: String,
    client: LockClient,
    said: Vec<Event>,
    /// When it was stopped, and when it was resumed.
    stopped: Option<(Duration, Duration)>,
}

impl Worker {
    fn start(url: &str, number: u64, tasks: u64, count: usize, flags: &str) -> Self {
        let mut client = LockClient::connect(CLIENT, url);
        client.send(&format!("mixed {number} {tasks} {count} {TTL_MS} {flags}"));
        Worker { name: format!("process {number}"), client, said: Vec::new(), stopped: None }
    }

    fn count(&self, name: &str) -> usize {
        self.said.iter().filter(|event| event.name() == name).count()
    }

    /// Reads its output until this many more sections have begun.
    fn listen(&mut self, sections: usize) {
        let wanted = self.count("entered") + sections;
        while self.count("entered") < wanted {
            let event = self.client.next();
            assert_ne!(event.name(), "done", "{} was done too early to be disturbed", self.name);
            self.said.push(event);
        }
    }

    /// Reads its output until it has finished, or has died.
    fn listen_to_the_end(&mut self) {
        while let Some(event) = self.client.next_if_alive() {
            self.said.push(event);
            if self.count("done") > 0 {
                return;
            }
        }
    }

    /// A grant that the stopped process could not accept is released, and its request waits again, after others.
    fn was_stopped_before(&self, section: &Section) -> bool {
        let (Some((from, to)), Some(line)) = (self.stopped, &section.line) else { return false };
        line.asked < to && section.entered > from
    }

    /// Adds its beliefs to the history. Unfinished sections ended when the process was `gone`.
    fn testify(&self, gone: Duration, history: &mut History) {
        let left = self.said.iter().filter(|event| event.name() == "left");
        let left: HashMap<u64, &Event> = left.map(|event| (event.number("id").unwrap(), event)).collect();
        for event in self.said.iter().filter(|event| event.name() == "entered") {
            let end = left.get(&event.number("id").unwrap()).copied().ok_or(gone);
            for mut section in event.sections(&self.name, end) {
                if self.was_stopped_before(&section) {
                    section.line = None;
                }
                history.add(section);
            }
        }
    }
}

/// Long compared with every hold, so that a process without faults loses no lock.
const TTL_MS: u64 = 2_000;
const TASKS: u64 = 4;
/// The sections of each task.
const COUNT: usize = 150;
/// More errors than all the faults of a test cause in one process: each error takes a pause of two seconds or longer.
/// Fewer than the requests for the rarest kind of lock, which are a fifth.
const MOST_ERRORS: usize = COUNT * TASKS as usize / 10;

fn count(history: &History, kind: impl Fn(Kind) -> bool) -> usize {
    history.sections().iter().filter(|section| kind(section.kind)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_exclude_each_other_while_processes_are_killed_and_stopped() {
    let server = RedisServer::start();
    kinds_exclude_each_other(&server.url()).await;
    residue::expires_within(&server, Duration::from_secs(20));
}

/// Locks in a file have no server that decides between the processes.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_exclude_each_other_in_a_file_while_processes_are_killed_and_stopped() {
    let directory = tempfile::tempdir().unwrap();
    kinds_exclude_each_other(&format!("sqlite:{}/locks.db", directory.path().display())).await;
}

/// On MariaDB, one transaction changes the row of a key and the rows of its holders.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_exclude_each_other_on_mariadb_while_processes_are_killed_and_stopped() {
    let server = MariaDbServer::start();
    kinds_exclude_each_other(&server.url()).await;
    eventually("nothing is left", async || server.residue("distlock_", "").await.is_empty()).await;
}

/// On etcd, places end with the session of their process.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_exclude_each_other_on_etcd_while_processes_are_killed_and_stopped() {
    let servers = EtcdServers::one();
    kinds_exclude_each_other(&format!("{}?session_timeout=2s", servers.url())).await;
    servers.has_no_locks("distlock/");
}

/// On ZooKeeper, the server deletes all places of a process together with its session, not one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_exclude_each_other_on_zookeeper_while_processes_are_killed_and_stopped() {
    let servers = ZooKeeperServers::one();
    kinds_exclude_each_other(&format!("{}?session_timeout=2s", servers.url())).await;
    servers.has_no_locks("/distlock");
}

async fn kinds_exclude_each_other(url: &str) {
    let start = |number| Worker::start(url, number, TASKS, COUNT, "");
    let mut workers: Vec<Worker> = (1..=6).map(start).collect();
    let mut history = History::default();
    // The first two processes are killed. The next two are stopped for longer than a lease, and then resumed.
    for (round, victim) in [0, 1].into_iter().enumerate() {
        workers[victim].listen(20 + 30 * round);
        let gone = shared_clock();
        workers[victim].client.kill9();
        workers[victim].listen_to_the_end();
        assert_eq!(workers[victim].count("done"), 0);
        workers[victim].testify(gone, &mut history);
        let stopped = victim + 2;
        workers[stopped].listen(10);
        let from = shared_clock();
        workers[stopped].client.stop();
        // The fault itself: other processes acquire its locks.
        tokio::time::sleep(Duration::from_millis(TTL_MS + 500)).await;
        workers[stopped].client.cont();
        workers[stopped].stopped = Some((from, shared_clock()));
    }
    for worker in workers.iter_mut().skip(2) {
        worker.listen_to_the_end();
        assert_eq!(worker.count("done"), 1, "{}", worker.name);
        worker.testify(shared_clock(), &mut history);
        if let Some(surprise) = surprise(&worker.said) {
            panic!("{}: {surprise}", worker.name);
        }
    }
    history.assert_sound();
    for (what, of) in [
        ("exclusive", count(&history, |kind| kind == Kind::Exclusive)),
        ("shared", count(&history, |kind| kind == Kind::Shared)),
        ("limited", count(&history, |kind| matches!(kind, Kind::Limited(_)))),
    ] {
        assert!(of > 100, "only {of} {what} sections were judged");
    }
}

/// The errors of a process that pauses do not explain.
fn surprise(said: &[Event]) -> Option<String> {
    let errors: Vec<&Event> = said.iter().filter(|event| event.name() == "error").collect();
    if let Some(error) = errors.iter().find(|error| !may_follow_a_stop(error)) {
        return Some(format!("{error:?}"));
    }
    let count = errors.len();
    (count > MOST_ERRORS).then(|| format!("{count} errors, the last one of which is {:?}", errors.last()))
}

/// A paused process has lost its lock, or did not get a reply in time. On a slow machine, every process and the server
/// are paused at times.
fn may_follow_a_stop(error: &Event) -> bool {
    matches!(error.text("kind"), "Lost" | "Unavailable")
}

/// The positive control: errors of a worker that cannot acquire one kind of lock are not taken for those of a pause.
#[test]
fn errors_that_pauses_do_not_explain_are_noticed() {
    let errors =
        |kind: &str, count| vec![Event(serde_json::json!({ "event": "error", "kind": kind })); count];
    assert_eq!(surprise(&errors("Unavailable", MOST_ERRORS)), None);
    assert!(surprise(&errors("Unavailable", COUNT * TASKS as usize / 5)).is_some());
    assert!(surprise(&errors("Busy", 1)).is_some());
}

/// The positive control: for every kind, the judge detects the same work without a lock.
#[tokio::test(flavor = "multi_thread")]
async fn the_judge_finds_out_who_works_without_a_lock() {
    let server = RedisServer::start();
    let mut workers: Vec<Worker> =
        (1..=3).map(|number| Worker::start(&server.url(), number, TASKS, 60, "unlocked")).collect();
    let mut history = History::default();
    for worker in &mut workers {
        worker.listen_to_the_end();
        worker.testify(shared_clock(), &mut history);
    }
    let faults = history.faults();
    let overlap = |one: Kind, other: Kind| {
        faults.iter().any(|fault| match fault {
            Fault::Overlap(a, b) => (a.kind, b.kind) == (one, other) || (a.kind, b.kind) == (other, one),
            _ => false,
        })
    };
    assert!(overlap(Kind::Exclusive, Kind::Exclusive), "two writers");
    assert!(overlap(Kind::Exclusive, Kind::Shared), "a writer and a reader");
    assert!(faults.iter().any(|fault| matches!(fault, Fault::Crowd(_))), "more than the limit");
}
