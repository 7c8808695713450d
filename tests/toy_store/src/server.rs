//! The server: a table of locks, and a task for each connection.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::LockKind;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use crate::line::{Words, hex, kind_word, millis, unhex};

/// A server on a free port of this machine. Ends when dropped.
#[derive(Debug)]
pub struct ToyServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    released: broadcast::Sender<String>,
    reachable: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Table {
    locks: HashMap<String, Lock>,
    /// When they end, by their clients.
    sessions: HashMap<String, Instant>,
    last_fence: u64,
}

#[derive(Debug)]
struct Lock {
    kind: LockKind,
    holders: Vec<(String, Instant)>,
}

impl ToyServer {
    /// Starts one, within a tokio runtime.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (table, released) = (Mutex::default(), broadcast::Sender::new(1024));
        let shared = Arc::new(Shared { table, released, reachable: watch::Sender::new(true) });
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Ok(ToyServer { address, shared, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection, and each that is made, until [`mend`](Self::mend) is called.
    pub fn cut(&self) {
        self.shared.reachable.send_replace(false);
    }

    /// Can be reached again.
    pub fn mend(&self) {
        self.shared.reachable.send_replace(true);
    }

    /// Every key that is taken.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut table = self.shared.table();
        table.locks.retain(|_, lock| lock.is_held());
        table.locks.keys().cloned().collect()
    }
}

impl Drop for ToyServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut reachable = shared.reachable.subscribe();
            tokio::select! {
                // Nothing is read after a cut.
                biased;
                // Cut.
                _ = reachable.wait_for(|reachable| !*reachable) => {}
                // Closed by the other side.
                _ = talk(stream, &shared) => {}
            }
        });
    }
}

async fn talk(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut released = shared.released.subscribe();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                Some(line) => {
                    let (id, request) = line.split_once(' ').unwrap_or((&line, ""));
                    let answer = shared.carry_out(request).unwrap_or_else(|| "REFUSED".to_owned());
                    format!("{id} {answer}\n")
                }
            },
            // Whoever is too slow has missed some: they are hints.
            Ok(key) = released.recv() => format!("!{}\n", hex(&key)),
        };
        writer.write_all(line.as_bytes()).await?;
    }
}

impl Shared {
    fn carry_out(&self, request: &str) -> Option<String> {
        let mut words = Words::of(request);
        let (what, key) = (words.text()?, words.text()?);
        if what == "SESSION" {
            return Some(self.table().heartbeat(key, words.span()?).to_owned());
        }
        let key = unhex(key)?;
        let mut table = self.table();
        if table.locks.get_mut(&key).is_some_and(|lock| !lock.is_held()) {
            table.locks.remove(&key);
        }
        let (answer, freed) = match what {
            "ACQUIRE" => (table.acquire(key.clone(), &mut words)?, false),
            "RENEW" => (table.renew(&key, words.text()?, words.span()).to_owned(), false),
            "RELEASE" => table.release(&key, words.text()?, words.span()),
            "FORCE" => {
                let held = table.locks.remove(&key).is_some();
                (if held { "RELEASED" } else { "NOT-HELD" }.to_owned(), held)
            }
            "INSPECT" => (table.inspect(&key), false),
            _ => return None,
        };
        drop(table);
        if freed {
            // Nobody is connected who could be told.
            drop(self.released.send(key));
        }
        Some(answer)
    }
}

impl Table {
    /// What ends with the session lasts as long again.
    fn heartbeat(&mut self, client: &str, timeout: Duration) -> &'static str {
        let (now, until) = (Instant::now(), Instant::now() + timeout);
        let before = self.sessions.insert(client.to_owned(), until);
        if before.is_none_or(|end| end <= now) {
            return "NEW";
        }
        let of_client =
            |holder: &str| holder.strip_prefix("dl1:").and_then(|text| text.strip_prefix(client)).is_some();
        for (holder, end) in self.locks.values_mut().flat_map(|lock| &mut lock.holders) {
            if of_client(holder) && before == Some(*end) {
                *end = until;
            }
        }
        "ALIVE"
    }

    fn acquire(&mut self, key: String, words: &mut Words<'_>) -> Option<String> {
        let (owner, ttl, kind) = (words.text()?, words.text()?, words.kind()?);
        let fences: u64 = words.number()?;
        let until = match ttl.parse() {
            Ok(ttl) => Instant::now() + Duration::from_millis(ttl),
            // As long as the session of this client.
            Err(_) => *self.sessions.get(ttl)?,
        };
        let lock = self.locks.entry(key).or_insert_with(|| Lock { kind, holders: Vec::new() });
        let is_ours = lock.holders.iter().any(|(holder, _)| holder == owner);
        let mixed = |one, other| matches!(one, LockKind::Limited { .. }) && one != other;
        if mixed(lock.kind, kind) || mixed(kind, lock.kind) {
            return Some(format!("WRONG-KIND {}", kind_word(lock.kind)));
        }
        if !is_ours && !lock.has_room(kind) {
            return Some(lock.in_the_way(kind));
        }
        lock.put(owner, until);
        let first = self.last_fence + 1;
        self.last_fence += fences;
        Some(format!("{} {first}", if is_ours { "HELD" } else { "ACQUIRED" }))
    }

    /// Without a ttl it only looks.
    fn renew(&mut self, key: &str, owner: &str, ttl: Option<Duration>) -> &'static str {
        match self.locks.get_mut(key) {
            Some(lock) if lock.holders.iter().any(|(holder, _)| holder == owner) => {
                lock.put(owner, Instant::now() + ttl.unwrap_or_default());
                "RENEWED"
            }
            _ => "NOT-HELD",
        }
    }

    /// The answer, and whether somebody may get in now.
    fn release(&mut self, key: &str, owner: &str, keep: Option<Duration>) -> (String, bool) {
        let Some(lock) = self.locks.get_mut(key) else { return ("NOT-HELD".to_owned(), false) };
        let Some(at) = lock.holders.iter().position(|(holder, _)| holder == owner) else {
            return ("NOT-HELD".to_owned(), false);
        };
        lock.holders.swap_remove(at);
        if let Some(keep) = keep {
            // Not to be released by anybody, but to end by itself.
            let several = lock.kind != LockKind::Exclusive;
            let name = if several {
                format!("{}:{owner}", distlock::store::KEPT)
            } else {
                distlock::store::KEPT.into()
            };
            lock.holders.push((name, Instant::now() + keep));
        }
        ("RELEASED".to_owned(), keep.is_none())
    }

    fn inspect(&self, key: &str) -> String {
        let Some(lock) = self.locks.get(key) else { return "FREE".to_owned() };
        let mut answer = format!("LOCK {}", kind_word(lock.kind));
        for (holder, until) in &lock.holders {
            answer += &format!(" {holder} {}", millis(left(*until)));
        }
        answer
    }
}

impl Lock {
    /// By anybody, now.
    fn is_held(&mut self) -> bool {
        self.holders.retain(|(_, until)| *until > Instant::now());
        !self.holders.is_empty()
    }

    fn has_room(&self, kind: LockKind) -> bool {
        match kind {
            _ if self.holders.is_empty() => true,
            LockKind::Shared => self.kind == LockKind::Shared,
            LockKind::Limited { max_holders } => self.holders.len() < max_holders as usize,
            _ => false,
        }
    }

    /// Lets in, or extends; never shortens.
    fn put(&mut self, owner: &str, until: Instant) {
        match self.holders.iter_mut().find(|(holder, _)| holder == owner) {
            Some((_, old)) => *old = until.max(*old),
            None => self.holders.push((owner.to_owned(), until)),
        }
    }

    /// For whom one of this kind waits: for the last to go, or for the first if one place is enough.
    fn in_the_way(&self, kind: LockKind) -> String {
        let one_is_enough = matches!(kind, LockKind::Limited { .. });
        let by_end = |(_, until): &&(String, Instant)| *until;
        let ends = self.holders.iter();
        let found = if one_is_enough { ends.min_by_key(by_end) } else { ends.max_by_key(by_end) };
        found.map_or_else(
            || "BUSY".to_owned(),
            |(holder, until)| format!("BUSY {holder} {}", millis(left(*until))),
        )
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
