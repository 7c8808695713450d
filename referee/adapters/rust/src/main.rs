//! Adapters for lock libraries in Rust: `distlock-referee-rust NAME URL`.

#![allow(clippy::print_stdout)]

mod async_redis_lock_adapter;
mod distributed_lock_adapter;
mod rlock_adapter;
mod rslock_adapter;

use std::{
    collections::HashMap,
    future::Future,
    io::BufRead as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{mpsc::unbounded_channel, oneshot};

/// The common interface of all libraries.
pub(crate) trait Library: Sized + Send + Sync + 'static {
    /// A lock that is held.
    type Lock: Send + Sync + 'static;
    /// The content of `hello`: the library, its version, and its abilities.
    const HELLO: &'static str;

    /// Connects.
    fn connect(url: &str) -> impl Future<Output = Result<Self, String>> + Send;

    /// `None`: the lock was busy.
    fn acquire(
        &self,
        key: String,
        ttl: Duration,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<Self::Lock>, String>> + Send;

    /// Returns when the library reports that the lock is lost.
    fn lost(lock: &mut Self::Lock) -> impl Future<Output = ()> + Send;

    /// Returns whether the lock was still held.
    fn release(lock: Self::Lock) -> impl Future<Output = Result<bool, String>> + Send;
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match *words {
        ["rslock", url] => serve::<rslock_adapter::Rslock>(url).await,
        ["rlock", url] => serve::<rlock_adapter::Rlock>(url).await,
        ["async-redis-lock", url] => serve::<async_redis_lock_adapter::AsyncRedisLock>(url).await,
        ["distributed-lock", url] => serve::<distributed_lock_adapter::DistributedLock>(url).await,
        _ => return Err("usage: distlock-referee-rust NAME URL".to_owned()),
    }
    Ok(())
}

/// The channels to request the release of a lock, by the number of its request.
type Held = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

async fn serve<L: Library>(url: &str) {
    let library = loop {
        match L::connect(url).await {
            Ok(library) => break Arc::new(library),
            // The server is unreachable.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    println!("hello {}", L::HELLO);
    let (sender, mut lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let held = Held::default();
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["acquire", id, key, ttl, wait] => {
                let request = (id.to_owned(), key.to_owned(), millis(ttl), millis(wait));
                tokio::spawn(acquire(library.clone(), held.clone(), request));
            }
            ["release", id] => {
                let told = held.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
                if told.is_none_or(|told| told.send(()).is_err()) {
                    println!("{id} lost");
                }
            }
            _ => println!("0 error unknown line"),
        }
    }
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap_or(1))
}

/// One request, until its lock is released or lost.
async fn acquire<L: Library>(library: Arc<L>, held: Held, request: (String, String, Duration, Duration)) {
    let (id, key, ttl, wait) = request;
    let mut lock = match library.acquire(key, ttl, wait).await {
        Ok(Some(lock)) => lock,
        Ok(None) => return println!("{id} busy"),
        Err(error) => return println!("{id} error {}", error.replace('\n', " ")),
    };
    let (sender, mut told) = oneshot::channel();
    held.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), sender);
    println!("{id} ok");
    let is_lost = tokio::select! {
        () = L::lost(&mut lock) => true,
        _ = &mut told => false,
    };
    if is_lost {
        held.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        return println!("{id} lost");
    }
    match L::release(lock).await {
        Ok(true) => println!("{id} released"),
        Ok(false) => println!("{id} lost"),
        Err(error) => println!("{id} error {}", error.replace('\n', " ")),
    }
}
