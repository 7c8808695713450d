//! A worker is killed before each message that it sends to the database, and before each one that it receives. In the
//! end, each request was executed once.

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use distlock_fixtures::{BOUND, Direction, MariaDbServer, PostgresServer, RedisServer};
use sqlx::ConnectOptions as _;

use super::worker::{Answer, Job, Line};
use super::{News, Place, Worker};
use crate::world::{World, mariadb_at, postgres_at};

/// An event that the test waits for.
enum Event {
    /// A message was held back.
    Kept,
    Worker(News),
}

/// Forwards this many messages of one direction, and holds back all later ones.
struct Gate {
    kept_back: Direction,
    pass: usize,
    passed: AtomicUsize,
    events: mpsc::Sender<Event>,
}

impl Gate {
    /// Listens for as long as the test program runs.
    fn open(self, server: String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(self);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                for direction in [Direction::Requests, Direction::Replies] {
                    let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                    let gate = Arc::clone(&gate);
                    thread::spawn(move || match direction {
                        Direction::Requests => gate.forward(direction, client, server),
                        Direction::Replies => gate.forward(direction, server, client),
                    });
                }
            }
        });
        address
    }

    /// Forwards until one side ends, and then closes the other one.
    fn forward(&self, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
        let mut message = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut message) {
            if direction == self.kept_back && self.passed.fetch_add(1, Ordering::SeqCst) >= self.pass {
                drop(self.events.send(Event::Kept));
            } else if to.write_all(&message[..length]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
    }
}

/// Starts a worker that is killed when this many messages have passed. Returns whether there were that many.
fn is_killed(place: &Place, kept_back: Direction, pass: usize, job: &Job) -> bool {
    let (sender, events) = mpsc::channel();
    let gate = Gate { kept_back, pass, passed: AtomicUsize::new(0), events: sender.clone() };
    let server = place.server.clone().unwrap();
    let address = gate.open(server.clone()).to_string();
    let place = Place {
        locks: place.locks.clone(),
        database: place.database.replace(&server, &address),
        server: None,
    };
    let mut worker = start(&place, sender);
    worker.give(job.clone());
    loop {
        match events.recv_timeout(BOUND).expect("the worker goes on") {
            Event::Kept => return true,
            Event::Worker((_, _, Some(Line::Answer(answer, ..)))) => {
                assert_eq!(answer, Answer::Committed);
                return false;
            }
            Event::Worker(_) => {}
        }
    }
}

fn start(place: &Place, events: mpsc::Sender<Event>) -> Worker {
    let (sender, news) = mpsc::channel();
    thread::spawn(move || news.into_iter().try_for_each(|news| events.send(Event::Worker(news))));
    Worker::start(place, 0, 0, None, &sender)
}

/// Returns the requests. One worker began each of them.
fn kill_each(place: &Place) -> Vec<Job> {
    let mut jobs = Vec::new();
    for kept_back in [Direction::Requests, Direction::Replies] {
        for pass in 0.. {
            let job = Job::Once(format!("{kept_back:?}-{pass}"));
            jobs.push(job.clone());
            if !is_killed(place, kept_back, pass, &job) {
                // Begin, check, look, write, store, commit, and the messages at the start of the connection.
                assert!(pass >= 6, "{pass} messages of {kept_back:?}");
                break;
            }
        }
    }
    // The clients repeat their requests.
    let (sender, events) = mpsc::channel();
    let mut worker = start(place, sender);
    for job in &jobs {
        worker.give(job.clone());
    }
    let mut answered = 0;
    while answered < jobs.len() {
        if let Event::Worker((_, _, Some(Line::Answer(answer, _, job)))) = events.recv_timeout(BOUND).unwrap()
        {
            assert!(matches!(answer, Answer::Committed | Answer::Replay), "{job}: {answer:?}");
            answered += 1;
        }
    }
    jobs
}

async fn requests_are_done_once<D: World>(database: D, url: String, server: String) {
    let locks = RedisServer::start();
    let place = Place { locks: locks.url(), database: url, server: Some(server) };
    let jobs = tokio::task::spawn_blocking(move || kill_each(&place)).await.unwrap();
    for job in jobs {
        let written = database.written(job.name()).await;
        assert_eq!(written.len(), 1, "{job}: {written:?}");
    }
}

#[tokio::test]
async fn a_worker_that_is_killed_at_any_message_on_postgres() {
    let (pool, options) = postgres_at("read committed").await;
    requests_are_done_once(pool, options.to_url_lossy().into(), PostgresServer::shared().address()).await;
}

#[tokio::test]
async fn a_worker_that_is_killed_at_any_message_on_mariadb() {
    let (pool, options) = mariadb_at("REPEATABLE READ").await;
    requests_are_done_once(pool, options.to_url_lossy().into(), MariaDbServer::shared().address()).await;
}
