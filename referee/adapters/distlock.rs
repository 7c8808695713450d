//! The adapter of distlock. The URL decides the store.

use std::{
    collections::HashMap,
    io::BufRead as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use distlock::{Guard, LockError, LockManager};
use tokio::sync::mpsc::unbounded_channel;

use crate::Failure;

/// On etcd and ZooKeeper, a lease ends with the session of its process. This is its time-out, as long as a default
/// lease.
const SESSION: Duration = Duration::from_secs(2);

#[tokio::main]
pub(crate) async fn serve(url: &str) -> Result<(), Failure> {
    // Memcached has no fencing tokens.
    let tokens = !url.starts_with("memcached:");
    let yes = if tokens { "yes" } else { "no" };
    println!("hello distlock {} tokens={yes} waits=yes renews=yes", env!("CARGO_PKG_VERSION"));
    let manager = loop {
        match LockManager::builder().url(url).default_ttl(SESSION).connect().await {
            Ok(manager) => break manager,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let client = Arc::new(Client { manager, tokens, guards: Mutex::default() });
    let (sender, mut lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let client = client.clone();
        tokio::spawn(async move {
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words {
                ["acquire", id, key, ttl, wait] => client.acquire(id, key, millis(ttl), millis(wait)).await,
                ["release", id] => client.release(id).await,
                _ => println!("0 error unknown line"),
            }
        });
    }
    client.manager.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap_or(1))
}

struct Client {
    manager: LockManager,
    tokens: bool,
    guards: Mutex<HashMap<String, Guard>>,
}

impl Client {
    async fn acquire(&self, id: &str, key: &str, ttl: Duration, wait: Duration) {
        let request = self.manager.lock(key).ttl(ttl).wait(wait);
        let request = if self.tokens { request.fenced() } else { request };
        let guard = match request.acquire().await {
            Ok(guard) => guard,
            Err(error) if error.is_busy() => return println!("{id} busy"),
            Err(error) => return println!("{id} error {}", one_line(&error)),
        };
        let (token, lost) = (guard.fencing_token().map(|token| token.get()), guard.lost());
        // Stored before the answer, because the next line may release it.
        self.guards.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), guard);
        println!("{id} ok {}", token.map(|token| token.to_string()).unwrap_or_default());
        let id = id.to_owned();
        tokio::spawn(async move {
            lost.await;
            println!("{id} lost");
        });
    }

    async fn release(&self, id: &str) {
        let guard = self.guards.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let Some(guard) = guard else { return println!("{id} lost") };
        match guard.release().await {
            Ok(()) => println!("{id} released"),
            Err(LockError::Lost { .. }) => println!("{id} lost"),
            Err(error) => println!("{id} error {}", one_line(&error)),
        }
    }
}

fn one_line(error: &LockError) -> String {
    error.to_string().replace('\n', " ")
}
