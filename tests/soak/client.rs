//! A client process of a soak: `soak client <url> <register> <seed> <tasks> <long> <store>`. Works until it reads a
//! line, reports on its standard output, and ends with it when its input ends.

use std::{
    io::{BufRead, BufWriter, Write as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use distlock::LockManager;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::{
    options::Store,
    plan::{LONGEST_TTL, Offer},
    record::Line,
    register::Register,
    section::Worker,
};

/// The longest section, wait and release together. A task that takes longer hangs.
const END: Duration = Duration::from_secs(40);
/// A thread sleeps for this long. If it wakes up much later, the process was not scheduled.
const TICK: Duration = Duration::from_millis(10);
const STALL: Duration = Duration::from_millis(30);
/// The time limit to connect if servers are unreachable at the beginning.
const CONNECT: Duration = Duration::from_secs(30);

/// The channel for lines to standard output.
#[derive(Clone, Debug)]
pub(crate) struct Report(mpsc::Sender<Line>);

impl Report {
    pub(crate) fn say(&self, line: Line) {
        self.0.send(line).unwrap();
    }

    /// Starts a separate thread, because a full pipe must not stop the tasks.
    fn start() -> (Self, std::thread::JoinHandle<()>) {
        let (sender, lines) = mpsc::channel::<Line>();
        let writer = std::thread::spawn(move || {
            let mut output = BufWriter::new(std::io::stdout());
            while let Ok(line) = lines.recv() {
                writeln!(output, "{line}").unwrap();
                for line in lines.try_iter() {
                    writeln!(output, "{line}").unwrap();
                }
                output.flush().unwrap();
            }
        });
        (Report(sender), writer)
    }
}

pub(crate) fn main(words: &[String]) {
    // The panic of a task would be noticed only at the end, and not at all in a client that is killed before.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let [url, register, seed, tasks, long_percent, key_factor, store] = words else {
        panic!("see the source")
    };
    let (seed, tasks): (u64, u64) = (seed.parse().unwrap(), tasks.parse().unwrap());
    let (long_percent, key_factor) = (long_percent.parse().unwrap(), key_factor.parse().unwrap());
    let offer = Store::named(store).unwrap().offer(long_percent, key_factor);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (report, writer) = Report::start();
    runtime.block_on(work(url, register, Rng::with_seed(seed), tasks, offer, report));
    drop(runtime);
    writer.join().unwrap();
}

async fn work(url: &str, register: &str, mut rng: Rng, tasks: u64, offer: Offer, report: Report) {
    let manager = connect(url).await;
    let worker = Worker {
        manager,
        register: Register::connect(register).await,
        report: report.clone(),
        stalls: Stalls::watch(),
        sections: Arc::default(),
        stop: Arc::default(),
        offer,
    };
    stop_when_told(worker.stop.clone());
    report.say(Line::Ready);
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        running.spawn(worker.clone().work(rng.fork()));
    }
    while !worker.stop.load(Ordering::SeqCst) {
        tokio::time::sleep(TICK).await;
    }
    let all = async {
        while let Some(task) = running.join_next().await {
            task.unwrap();
        }
    };
    tokio::time::timeout(END, all).await.ok();
    let hung = u64::try_from(running.len()).unwrap();
    worker.manager.shutdown(Duration::from_secs(1)).await;
    report.say(Line::Done { hung });
}

async fn connect(url: &str) -> LockManager {
    let start = Instant::now();
    loop {
        // A quorum waits for the longest ttl before a restarted server counts.
        match LockManager::builder().url(url).default_ttl(LONGEST_TTL).connect().await {
            Ok(manager) => return manager,
            Err(error) => assert!(start.elapsed() < CONNECT, "{error:?}"),
        }
        tokio::time::sleep(TICK).await;
    }
}

/// The time in which this process was not scheduled.
#[derive(Debug)]
pub(crate) struct Stalls(Mutex<Watched>);

#[derive(Debug)]
struct Watched {
    stalled: Duration,
    /// When the watching thread last ran.
    seen: Instant,
}

impl Watched {
    /// The time since then, if that thread should have run.
    fn gap(&self) -> Duration {
        Some(self.seen.elapsed()).filter(|gap| *gap > STALL).unwrap_or_default()
    }
}

impl Stalls {
    pub(crate) fn watch() -> Arc<Self> {
        let stalls = Arc::new(Stalls(Mutex::new(Watched { stalled: Duration::ZERO, seen: Instant::now() })));
        let watching = stalls.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(TICK);
                let mut watched = watching.0.lock().unwrap();
                let gap = watched.gap();
                watched.stalled += gap;
                watched.seen = Instant::now();
            }
        });
        stalls
    }

    /// The total until now. A thread that resumes before the watching thread adds the present gap itself.
    pub(crate) fn so_far(&self) -> Duration {
        let watched = self.0.lock().unwrap();
        watched.stalled + watched.gap()
    }
}

fn stop_when_told(stop: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_ok_and(|count| count > 0) {
            stop.store(true, Ordering::SeqCst);
        } else {
            std::process::exit(0);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_before_the_watching_thread_runs_again() {
        let seen = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        let stalls = Stalls(Mutex::new(Watched { stalled: Duration::from_secs(1), seen }));
        assert!(stalls.so_far() >= Duration::from_secs(4));
    }
}
