//! Our side of a contest with a foreign client, and the verdict on both.

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::{Event, History, LockClient, RedisServer, Section, Tally, residue, shared_clock};

/// Tasks of ours; enough of them for the key never to be free between two of ours.
pub(crate) const TASKS: usize = 4;
/// Sections that the foreign client has to do: about one per second while ours stand in line.
pub(crate) const FOREIGN: usize = 8;
pub(crate) const KEY: &str = "shared";
pub(crate) const TALLY: &str = "tally";
pub(crate) const TTL: Duration = Duration::from_secs(20);

/// Works on the key until `stop`, but at least once (a foreign client that never pauses may be done before a
/// task of ours has begun), and returns what was believed. A task that does not get the lock within a minute fails.
pub(crate) async fn work(url: String, task: usize, stop: tokio::sync::watch::Receiver<bool>) -> Vec<Section> {
    let manager = LockManager::connect(&url).await.unwrap();
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut sections = Vec::new();
    while !*stop.borrow() || sections.is_empty() {
        let guard = manager.lock(KEY).ttl(TTL).wait(Duration::from_secs(60)).acquire().await.unwrap();
        let entered = shared_clock();
        Tally::increment_key(&mut connection, TALLY);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let left = shared_clock();
        guard.release().await.unwrap();
        sections.push(Section::new(&format!("ours {task}"), KEY, entered, left));
    }
    sections
}

/// No overlap, no lost update, everybody had a turn, nothing left.
pub(crate) async fn judge(server: &RedisServer, ours: Vec<Vec<Section>>, foreign: Vec<Section>) {
    assert_eq!(foreign.len(), FOREIGN, "the foreign client makes progress");
    assert!(ours.iter().all(|sections| !sections.is_empty()), "every one of ours makes progress");
    let mut history = History::default();
    for section in ours.into_iter().flatten().chain(foreign) {
        history.add(section);
    }
    history.assert_sound();
    assert_eq!(Tally::of_key(server, TALLY), history.len() as u64, "no update is lost");
    server.raw(&["DEL", TALLY]);
    residue::none(server).await;
}

/// Starts our tasks; the sender stops them.
pub(crate) fn start(
    server: &RedisServer,
) -> (tokio::sync::watch::Sender<bool>, Vec<tokio::task::JoinHandle<Vec<Section>>>) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let tasks = (0..TASKS).map(|task| tokio::spawn(work(server.url(), task, stopped.clone()))).collect();
    (stop, tasks)
}

/// A client process works on the key beside our tasks, and both are judged. Returns its last event.
pub(crate) async fn contest(server: &RedisServer, mut client: LockClient, name: &'static str) -> Event {
    let (stop, tasks) = start(server);
    client.send(&format!("sections {KEY} {FOREIGN} {} {TALLY}", TTL.as_millis()));
    let foreign = tokio::task::spawn_blocking(move || {
        let sections = (0..FOREIGN).map(|_| client.expect("section").section(name)).collect::<Vec<_>>();
        (sections, client.expect("done"))
    });
    let (foreign, done) = foreign.await.unwrap();
    stop.send(true).unwrap();
    let mut ours = Vec::new();
    for task in tasks {
        ours.push(task.await.unwrap());
    }
    judge(server, ours, foreign).await;
    done
}
