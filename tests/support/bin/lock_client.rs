//! Acquires locks for a test that needs another process: `lock-client <url>` (or `env`), then one command per line.
//!
//! ```text
//! acquire KEY TTL_MS WAIT_MS [fenced] [no-renew] [linger]   -> acquired {key, fence, at, until}
//! release KEY                                      -> released {key}
//! sections KEY COUNT TTL_MS HOLD_US TALLY          -> section {key, entered, left, fence} …, done {key}
//! lead OFFICE TTL_MS                              -> leads {term, at} as long as it leads, again and again
//! mixed SEED TASKS COUNT TTL_MS [unlocked]         -> entered {id, keys, kind, …}, left {id, at} …, done {key}
//! ```
//!
//! `mixed_sections.rs` explains `mixed`.
//!
//! The reply to a failed command is `error {key, kind, text}`. A lost lease is reported as `lost {key, at}` when it
//! happens. Commands run concurrently. Times are microseconds of the clock that all processes of a machine share. The
//! end of the input ends the process without any clean-up.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod mixed_sections;

use std::{collections::HashMap, io::BufRead, sync::Arc, time::Duration};

use distlock::{Guard, LockError, LockManager, leader::Lead};
use distlock_tests::{Tally, shared_clock};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc::unbounded_channel};

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    let connected = match url.as_str() {
        "env" => LockManager::from_env().await,
        url => LockManager::connect(url).await,
    };
    let manager = match connected {
        Ok(manager) => manager,
        Err(error) => return say_error("", &error),
    };
    say(&json!({ "event": "ready" }));
    let client = Arc::new(Client { url, manager, guards: Mutex::default() });
    let (sender, mut lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            sender.send(line).unwrap();
        }
        std::process::exit(0);
    });
    while let Some(line) = lines.recv().await {
        let client = client.clone();
        tokio::spawn(async move {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Err(error) = client.carry_out(&words).await {
                say_error(words[1], &error);
            }
        });
    }
}

struct Client {
    url: String,
    manager: LockManager,
    guards: Mutex<HashMap<String, Guard>>,
}

impl Client {
    async fn carry_out(&self, words: &[&str]) -> Result<(), LockError> {
        match *words {
            ["acquire", key, ttl, wait, ref flags @ ..] => {
                self.acquire(key, millis(ttl), millis(wait), flags).await
            }
            ["release", key] => self.release(key).await,
            ["sections", key, count, ttl, hold, tally] => {
                let hold = Duration::from_micros(hold.parse().unwrap());
                self.sections(key, count.parse().unwrap(), millis(ttl), hold, tally).await
            }
            ["lead", office, ttl] => self.lead(office, millis(ttl)).await,
            ["mixed", seed, tasks, count, ttl, ref flags @ ..] => {
                let manager = (!flags.contains(&"unlocked")).then(|| self.manager.clone());
                let tasks = tasks.parse().unwrap();
                let work = mixed_sections::Work { manager, ttl: millis(ttl), count: count.parse().unwrap() };
                work.run(seed.parse().unwrap(), tasks).await;
                Ok(())
            }
            _ => panic!("unknown command {words:?}"),
        }
    }

    async fn acquire(
        &self,
        key: &str,
        ttl: Duration,
        wait: Duration,
        flags: &[&str],
    ) -> Result<(), LockError> {
        let mut request = self.manager.lock(key).ttl(ttl).wait(wait);
        if flags.contains(&"fenced") {
            request = request.fenced();
        }
        if flags.contains(&"linger") {
            request = request.linger(Duration::from_secs(10));
        }
        if flags.contains(&"no-renew") {
            request = request.no_renew();
        }
        let guard = request.acquire().await?;
        let at = shared_clock();
        let acquired = json!({
            "event": "acquired",
            "key": key,
            "fence": guard.fencing_token().map(|token| token.get()),
            "at": micros(at),
            "until": micros(at + guard.remaining()),
        });
        let (lost, name) = (guard.lost(), key.to_owned());
        // Stored before the reply, because the next command may release it.
        self.guards.lock().await.insert(key.to_owned(), guard);
        say(&acquired);
        tokio::spawn(async move {
            lost.await;
            say(&json!({ "event": "lost", "key": name, "at": micros(shared_clock()) }));
        });
        Ok(())
    }

    async fn release(&self, key: &str) -> Result<(), LockError> {
        let guard = self.guards.lock().await.remove(key).unwrap();
        guard.release().await?;
        say(&json!({ "event": "released", "key": key }));
        Ok(())
    }

    async fn lead(&self, office: &str, ttl: Duration) -> Result<(), LockError> {
        self.manager.leader(office).ttl(ttl).run(report).await
    }

    async fn sections(
        &self,
        key: &str,
        count: u32,
        ttl: Duration,
        hold: Duration,
        tally: &str,
    ) -> Result<(), LockError> {
        let mut connection = redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap();
        for _ in 0..count {
            let guard = self.manager.lock(key).ttl(ttl).fenced().wait_forever().acquire().await?;
            let entered = shared_clock();
            Tally::increment_key(&mut connection, tally);
            tokio::time::sleep(hold).await;
            guard.check()?;
            say(&json!({
                "event": "section",
                "key": key,
                "fence": guard.fencing_token().map(|token| token.get()),
                "entered": micros(entered),
                "left": micros(shared_clock()),
            }));
            guard.release().await?;
        }
        say(&json!({ "event": "done", "key": key }));
        Ok(())
    }
}

/// Reports repeatedly while it leads.
async fn report(lead: Lead) {
    loop {
        let at = shared_clock();
        if lead.is_leader() {
            say(&json!({ "event": "leads", "term": lead.term().get(), "at": micros(at) }));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Prints one complete line, because `println!` holds the lock of standard output.
fn say(event: &Value) {
    println!("{event}");
}

fn say_error(key: &str, error: &LockError) {
    let debug = format!("{error:?}");
    let kind = debug.split([' ', '{', '(']).next().unwrap_or_default();
    say(&json!({ "event": "error", "key": key, "kind": kind, "text": error.to_string() }));
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
