//! Sections of annotated functions in several processes. The processes are killed, and stopped for longer than their
//! leases. Their connections to the database are cut, even during commits. In the end, the sums are right, no request
//! was executed twice, and the results of the callers are true.
//!
//! There are few sections by default. To run more, and on each store of locks:
//!
//! ```text
//! SECTIONS=4000 SEED=7 cargo test -p distlock-fence-tests --test databases -- --ignored --nocapture with_each_store
//! ```

mod each_message;
mod judge;
mod worker;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use distlock_fixtures::{
    BOUND, ClusterServers, Direction, EtcdServers, MariaDbServer, PostgresServer, Proxy, QuorumServers,
    RedisServer, SentinelGroup, ZooKeeperServers, signals,
};
use fastrand::Rng;
use sqlx::ConnectOptions as _;

use crate::world::{World, mariadb_at, postgres_at, sqlite};
use judge::Judge;
use worker::{Answer, DATABASE, Job, LOCKS, Line, TTL};

const WORKERS: usize = 4;
/// The number of jobs that each worker has at a time.
const EACH: usize = 4;
/// The names of the counters.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The stores of the workers' locks and data.
struct Place {
    locks: String,
    /// The URL of the database.
    database: String,
    /// The address of its server, which the address of a proxy replaces. SQLite has none.
    server: Option<String>,
}

struct Worker {
    process: Child,
    input: ChildStdin,
    /// Its link to the database.
    proxy: Option<Proxy>,
    /// How many earlier processes this worker had.
    life: usize,
    jobs: Vec<Job>,
    /// The present fault, and when it ends.
    fault: Option<(Instant, Fault)>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The process is stopped for longer than the lease lasts.
    Stopped,
    /// No reply of the database arrives, and then its connections are cut.
    Unanswered,
}

/// A line from a worker in one of its lives. `None`: the worker has ended.
type News = (usize, usize, Option<Line>);

impl Worker {
    fn start(
        place: &Place,
        number: usize,
        life: usize,
        proxy: Option<Proxy>,
        news: &mpsc::Sender<News>,
    ) -> Self {
        let database = match (&place.server, &proxy) {
            (Some(server), Some(proxy)) => place.database.replace(server, &proxy.address().to_string()),
            _ => place.database.clone(),
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "campaign::worker::works"]);
        command.env(LOCKS, &place.locks).env(DATABASE, database);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let news = news.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(line) = Line::read(&line) {
                    drop(news.send((number, life, Some(line))));
                }
            }
            drop(news.send((number, life, None)));
        });
        Worker { process, input, proxy, life, jobs: Vec::new(), fault: None }
    }

    fn give(&mut self, job: Job) {
        // It may have been killed. In that case, other workers get its jobs.
        drop(writeln!(self.input, "{job}").and_then(|()| self.input.flush()));
        self.jobs.push(job);
    }

    fn undo(&mut self) {
        match (self.fault.take(), &self.proxy) {
            (Some((_, Fault::Stopped)), _) => signals::cont(&self.process),
            (Some((_, Fault::Unanswered)), Some(proxy)) => {
                proxy.cut();
                proxy.pass();
            }
            _ => {}
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        signals::kill9(&mut self.process);
    }
}

struct Campaign<'a> {
    place: &'a Place,
    rng: Rng,
    workers: Vec<Worker>,
    sender: mpsc::Sender<News>,
    news: mpsc::Receiver<News>,
    /// Requests without a result so far.
    again: VecDeque<Job>,
    requests: usize,
    judge: Judge,
}

impl<'a> Campaign<'a> {
    fn start(place: &'a Place, seed: u64) -> Self {
        let (sender, news) = mpsc::channel();
        let worker = |number| {
            let proxy = place.server.as_deref().map(Proxy::to);
            Worker::start(place, number, 0, proxy, &sender)
        };
        Campaign {
            place,
            rng: Rng::with_seed(seed),
            workers: (0..WORKERS).map(worker).collect(),
            sender,
            news,
            again: VecDeque::new(),
            requests: 0,
            judge: Judge::default(),
        }
    }

    /// The next job. Requests are sent twice, as if the first reply had been lost.
    fn job(&mut self) -> Job {
        let name = self.rng.choice(NAMES).unwrap().to_owned();
        match self.rng.usize(..8) {
            0 => return Job::Late(name),
            1..4 => return Job::Add(name),
            _ => {}
        }
        self.again.pop_front().unwrap_or_else(|| {
            self.requests += 1;
            let job = Job::Once(format!("request-{}", self.requests));
            self.again.push_back(job.clone());
            job
        })
    }

    /// Runs until this many sections have results.
    fn run(&mut self, sections: usize) {
        let (mut answers, mut next_fault) = (0, 20);
        while answers < sections {
            for number in 0..WORKERS {
                while self.workers[number].jobs.len() < EACH {
                    let job = self.job();
                    self.workers[number].give(job);
                }
            }
            answers += usize::from(self.hear());
            if answers >= next_fault {
                next_fault = answers + self.rng.usize(5..40);
                self.break_something();
            }
        }
    }

    /// Ends all faults, and repeats each request until it has a result.
    fn finish(&mut self) {
        self.workers.iter_mut().for_each(Worker::undo);
        while !self.again.is_empty() || self.workers.iter().any(|worker| !worker.jobs.is_empty()) {
            if let (Some(worker), Some(job)) =
                (self.workers.iter_mut().find(|worker| worker.jobs.len() < EACH), self.again.pop_front())
            {
                worker.give(job);
                continue;
            }
            self.hear();
        }
    }

    /// Waits for a result, or until a fault ends. Returns whether there was a result.
    fn hear(&mut self) -> bool {
        let due = self.workers.iter().filter_map(|worker| worker.fault).map(|(until, _)| until).min();
        let wait = due.map_or(BOUND, |due| due.saturating_duration_since(Instant::now()));
        let heard = self.news.recv_timeout(wait);
        let now = Instant::now();
        for worker in &mut self.workers {
            if worker.fault.is_some_and(|(until, _)| until <= now) {
                worker.undo();
            }
        }
        match heard {
            Ok((number, life, line)) if self.workers[number].life == life => {
                match line.expect("a worker ends when it is told so") {
                    Line::Ready => false,
                    Line::Answer(answer, token, job) => {
                        self.answered(number, answer, token, job);
                        true
                    }
                }
            }
            // The worker was killed. Its earlier lines are still true.
            Ok((_, _, line)) => {
                if let Some(Line::Answer(answer, token, job)) = line {
                    self.judge.heard(answer, token, &job);
                }
                false
            }
            Err(_) => {
                assert!(due.is_some(), "no answer within {BOUND:?}: {:?}", self.judge);
                false
            }
        }
    }

    fn answered(&mut self, number: usize, answer: Answer, token: i64, job: Job) {
        let jobs = &mut self.workers[number].jobs;
        let place = jobs.iter().position(|it| *it == job).expect("a job that it was given");
        jobs.swap_remove(place);
        self.judge.heard(answer, token, &job);
        let is_done = matches!(answer, Answer::Committed | Answer::Replay);
        if matches!(job, Job::Once(_)) && !is_done {
            self.again.push_back(job);
        }
    }

    fn break_something(&mut self) {
        let number = self.rng.usize(..WORKERS);
        // Each worker has one fault at a time.
        if self.workers[number].fault.is_some() {
            return;
        }
        let worker = &mut self.workers[number];
        match (self.rng.usize(..8), &worker.proxy) {
            (0, _) => {
                signals::stop(&worker.process);
                worker.fault = Some((Instant::now() + 2 * TTL, Fault::Stopped));
            }
            (1..5, Some(proxy)) => {
                proxy.hold(Direction::Replies);
                let short = Duration::from_millis(self.rng.u64(1..50));
                worker.fault = Some((Instant::now() + short, Fault::Unanswered));
            }
            (5, Some(proxy)) => proxy.cut(),
            _ => {
                signals::kill9(&mut worker.process);
                let (proxy, life) = (worker.proxy.take(), worker.life + 1);
                let jobs = std::mem::take(&mut worker.jobs);
                self.judge.killed(&jobs);
                self.again.extend(jobs.into_iter().filter(|job| matches!(job, Job::Once(_))));
                *worker = Worker::start(self.place, number, life, proxy, &self.sender);
            }
        }
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs the campaign, and judges the database afterwards.
#[expect(clippy::print_stdout, reason = "what has happened is not the same each time")]
async fn judge<D: World>(place: Place, database: &D) {
    let seed = number("SEED").unwrap_or(1);
    let sections = usize::try_from(number("SECTIONS").unwrap_or(400)).unwrap();
    let judge = tokio::task::spawn_blocking(move || {
        let mut campaign = Campaign::start(&place, seed);
        campaign.run(sections);
        campaign.finish();
        campaign.judge
    });
    let judge = judge.await.unwrap();
    println!("seed {seed}: {judge}");
    judge.acquits(database).await;
}

/// The counters at the beginning.
fn counters() -> String {
    NAMES.map(|name| format!("INSERT INTO counter VALUES ('{name}', 0);")).concat()
}

async fn on_postgres(locks: String) {
    let (pool, options) = postgres_at("read committed").await;
    sqlx::raw_sql(&counters()).execute(&pool).await.unwrap();
    let server = Some(PostgresServer::shared().address());
    judge(Place { locks, database: options.to_url_lossy().into(), server }, &pool).await;
}

async fn on_mariadb(locks: String) {
    let (pool, options) = mariadb_at("REPEATABLE READ").await;
    sqlx::raw_sql(&counters()).execute(&pool).await.unwrap();
    let server = Some(MariaDbServer::shared().address());
    judge(Place { locks, database: options.to_url_lossy().into(), server }, &pool).await;
}

async fn on_sqlite(locks: String) {
    let (pool, folder) = sqlite().await;
    sqlx::raw_sql(&counters()).execute(&pool).await.unwrap();
    let database = format!("sqlite:{}", folder.path().join("data.db").display());
    judge(Place { locks, database, server: None }, &pool).await;
}

#[tokio::test]
async fn a_short_one_on_postgres() {
    let server = RedisServer::start();
    on_postgres(server.url()).await;
}

#[tokio::test]
async fn a_short_one_on_mariadb() {
    let server = RedisServer::start();
    on_mariadb(server.url()).await;
}

#[tokio::test]
async fn a_short_one_on_sqlite() {
    let server = RedisServer::start();
    on_sqlite(server.url()).await;
}

/// With each store whose locks have tokens, and each database.
#[tokio::test]
#[ignore = "takes minutes"]
async fn with_each_store() {
    let folder = tempfile::tempdir().unwrap();
    let (redis, etcd, zookeeper) = (RedisServer::start(), EtcdServers::shared(), ZooKeeperServers::shared());
    // After a kill, other processes wait until the session of the killed process ends.
    let with_session = |url: String| format!("{url}?session_timeout=2s");
    let stores = [
        redis.url(),
        SentinelGroup::shared().url(),
        ClusterServers::shared().url(),
        QuorumServers::shared().url(),
        PostgresServer::shared().url(),
        MariaDbServer::shared().url(),
        with_session(etcd.url()),
        with_session(zookeeper.url()),
        format!("sqlite:{}", folder.path().join("locks.db").display()),
    ];
    for locks in stores {
        println!("{}", locks.split(':').next().unwrap());
        on_postgres(locks.clone()).await;
        on_mariadb(locks.clone()).await;
        on_sqlite(locks).await;
    }
}
