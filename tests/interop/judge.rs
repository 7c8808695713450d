//! The distlock side of a contest with a foreign client, and the verdict on both sides.

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::{Event, History, LockClient, RedisServer, Section, Tally, residue, shared_clock};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The number of distlock tasks. It is so large that the key is never free between two of them.
pub(crate) const TASKS: usize = 4;
/// The number of sections that the foreign client must run, about one per second while the distlock tasks queue.
pub(crate) const FOREIGN: usize = 8;
pub(crate) const KEY: &str = "shared";
pub(crate) const TALLY: &str = "tally";
pub(crate) const TTL: Duration = Duration::from_secs(20);

/// Works on the key until `stop`, reports the end of its first section, and returns the beliefs. A task that does not
/// get the lock within a minute fails.
async fn work(
    url: String,
    task: usize,
    begun: mpsc::Sender<()>,
    stop: watch::Receiver<bool>,
) -> Vec<Section> {
    let manager = LockManager::connect(&url).await.unwrap();
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut sections = Vec::new();
    while !*stop.borrow() {
        let guard = manager.lock(KEY).ttl(TTL).wait(Duration::from_secs(60)).acquire().await.unwrap();
        let entered = shared_clock();
        Tally::increment_key(&mut connection, TALLY);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let left = shared_clock();
        guard.release().await.unwrap();
        if sections.is_empty() {
            begun.send(()).await.unwrap();
        }
        sections.push(Section::new(&format!("ours {task}"), KEY, entered, left));
    }
    sections
}

/// Checks that there was no overlap and no lost update, that every client had a turn, and that no lock is left.
pub(crate) async fn judge(server: &RedisServer, ours: Vec<Vec<Section>>, foreign: Vec<Section>) {
    assert_eq!(foreign.len(), FOREIGN, "the foreign client makes progress");
    let mut history = History::default();
    for section in ours.into_iter().flatten().chain(foreign) {
        history.add(section);
    }
    history.assert_sound();
    assert_eq!(Tally::of_key(server, TALLY), history.len() as u64, "no update is lost");
    server.raw(&["DEL", TALLY]);
    residue::none(server).await;
}

/// The distlock tasks.
pub(crate) struct Ours {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<Vec<Section>>>,
}

impl Ours {
    /// All of them are working when this returns. Otherwise a foreign client that never pauses would finish before they
    /// are connected.
    pub(crate) async fn begin(server: &RedisServer) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (begun, mut at_work) = mpsc::channel(TASKS);
        let tasks = (0..TASKS)
            .map(|task| tokio::spawn(work(server.url(), task, begun.clone(), stopped.clone())))
            .collect();
        for _ in 0..TASKS {
            at_work.recv().await.unwrap();
        }
        Ours { stop, tasks }
    }

    /// Ends the tasks, and returns their beliefs.
    pub(crate) async fn end(self) -> Vec<Vec<Section>> {
        self.stop.send(true).unwrap();
        let mut ours = Vec::new();
        for task in self.tasks {
            ours.push(task.await.unwrap());
        }
        ours
    }
}

/// A client process and the distlock tasks work on the same key, and both are judged. Returns the last event of the
/// process.
pub(crate) async fn contest(server: &RedisServer, mut client: LockClient, name: &'static str) -> Event {
    let ours = Ours::begin(server).await;
    client.send(&format!("sections {KEY} {FOREIGN} {} {TALLY}", TTL.as_millis()));
    let foreign = tokio::task::spawn_blocking(move || {
        let sections = (0..FOREIGN).map(|_| client.expect("section").section(name)).collect::<Vec<_>>();
        (sections, client.expect("done"))
    });
    let (foreign, done) = foreign.await.unwrap();
    judge(server, ours.end().await, foreign).await;
    done
}
