//! A process that works under locks until a line of input stops it:
//! `fenced-writer <url> <register url> <hot key> <slow keys, by commas>`.
//!
//! Several tasks share the hot key, with short sections. Each slow key has one task, with sections that are so long
//! that a fault hits them. Every section ends with a write to the fenced register. The output is one JSON object per
//! line: `ready`, then `section {key, entered, left, fence, accepted}` and `error {key, kind, text}`, and `done` after
//! a line of input. Times are microseconds of the clock that all processes of a machine share.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::{
    io::BufRead,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use distlock::{Guard, LockError, LockManager};
use distlock_tests::{FencedRegister, shared_clock};
use serde_json::{Value, json};

const TTL: Duration = Duration::from_secs(5);
const HOT_TASKS: usize = 2;
const HOT_HOLD_MS: u64 = 8;
const SLOW_HOLD_MS: u64 = 3_000;
/// How often a holder checks its lock.
const SLICE: Duration = Duration::from_millis(1);
/// The pause after an error, which prevents a busy loop.
const PAUSE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, register, hot, slow] = &words[..] else { panic!("usage: see the source") };
    let manager = LockManager::connect(url).await.unwrap_or_else(|error| panic!("{error:?}"));
    say(&json!({ "event": "ready" }));
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).is_ok_and(|count| count > 0) {
            stopping.store(true, Ordering::SeqCst);
        } else {
            std::process::exit(0);
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    let keys = std::iter::repeat_n((hot.as_str(), HOT_HOLD_MS), HOT_TASKS);
    for (number, (key, hold)) in keys.chain(slow.split(',').map(|key| (key, SLOW_HOLD_MS))).enumerate() {
        let worker = Worker {
            manager: manager.clone(),
            key: key.to_owned(),
            longest: hold,
            seed: u64::from(std::process::id()) + 1_000_000 * number as u64,
        };
        let (register, stop) = (FencedRegister::connect(register), stop.clone());
        tasks.spawn(worker.work(register, stop));
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    manager.shutdown(TTL).await;
    say(&json!({ "event": "done" }));
}

struct Worker {
    manager: LockManager,
    key: String,
    longest: u64,
    seed: u64,
}

impl Worker {
    async fn work(mut self, mut register: redis::Connection, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::SeqCst) {
            if let Err(error) = self.section(&mut register, &stop).await {
                self.say_error(&error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn section(
        &mut self,
        register: &mut redis::Connection,
        stop: &AtomicBool,
    ) -> Result<(), LockError> {
        let guard = self.manager.lock(&*self.key).ttl(TTL).fenced().acquire().await?;
        let entered = shared_clock();
        let fence = guard.fencing_token().map(|token| token.get()).unwrap();
        let mut belief = Belief { held: true, until: entered, deadline: entered };
        let end = Instant::now() + Duration::from_micros(self.random(self.longest * 1_000) + 200);
        // Others wait for a slow key. After the fault, no process should have to wait for all of them.
        while belief.still(&guard) && Instant::now() < end && !stop.load(Ordering::SeqCst) {
            tokio::time::sleep(SLICE).await;
        }
        // A holder that has lost the lock writes, too, because the loss may happen in the middle of the write.
        let accepted = FencedRegister::write(register, &self.key, fence);
        belief.still(&guard);
        say(&json!({
            "event": "section",
            "key": self.key,
            "fence": fence,
            "entered": micros(entered),
            "left": micros(belief.until),
            "accepted": accepted,
        }));
        guard.release().await
    }

    /// A random number below `limit`, with the constants of Knuth's MMIX.
    fn random(&mut self, limit: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % limit
    }

    fn say_error(&self, error: &LockError) {
        let debug = format!("{error:?}");
        let kind = debug.split([' ', '{', '(']).next().unwrap_or_default();
        say(&json!({ "event": "error", "key": self.key, "kind": kind, "text": error.to_string() }));
    }
}

/// The belief of a holder.
struct Belief {
    held: bool,
    /// The last moment at which it believed.
    until: Duration,
    /// The end of its lease, as it was known at that time.
    deadline: Duration,
}

impl Belief {
    fn still(&mut self, guard: &Guard) -> bool {
        if self.held {
            let now = shared_clock();
            self.held = guard.is_held();
            (self.until, self.deadline) = match self.held {
                true => (now, now + guard.remaining()),
                false => (now.min(self.deadline), self.deadline),
            };
        }
        self.held
    }
}

/// Prints one complete line, because `println!` holds the lock of standard output.
fn say(event: &Value) {
    println!("{event}");
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
