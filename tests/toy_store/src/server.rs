//! The server: a task for each connection, which uses the table of locks.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use crate::line::{Words, hex, unhex};
use crate::mistake::Mistake;
use crate::table::{News, Table};

/// A server on a free port of this machine. It ends when this is dropped.
#[derive(Debug)]
pub struct ToyServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    news: broadcast::Sender<News>,
    reachable: watch::Sender<bool>,
    /// The number of requests for locks.
    requests: AtomicU64,
    /// The number of messages to all connections.
    told: AtomicU64,
}

impl ToyServer {
    /// Starts a server, within a tokio runtime.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start() -> io::Result<Self> {
        Self::mistaken(None).await
    }

    /// Starts a server with a mistake.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn mistaken(mistake: Option<Mistake>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (table, news) = (Mutex::new(Table::new(mistake)), broadcast::Sender::new(1024));
        let shared = Arc::new(Shared {
            table,
            news,
            reachable: watch::Sender::new(true),
            requests: AtomicU64::new(0),
            told: AtomicU64::new(0),
        });
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Ok(ToyServer { address, shared, accepting })
    }

    /// The address for clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection, and each new one, until [`mend`](Self::mend) is called.
    pub fn cut(&self) {
        self.shared.reachable.send_replace(false);
    }

    /// Makes the server reachable again.
    pub fn mend(&self) {
        self.shared.reachable.send_replace(true);
    }

    /// Forgets all locks and sessions, like a server that was restarted.
    pub fn restart(&self) {
        self.shared.table().restart();
    }

    /// The number of requests for locks that it has executed.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// The clients that have sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<String> {
        self.shared.table().sessions()
    }

    /// Every key that is taken or waited for.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.shared.table().keys()
    }
}

impl Drop for ToyServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            let mut reachable = shared.reachable.subscribe();
            tokio::select! {
                // Cut.
                _ = reachable.wait_for(|reachable| !*reachable) => {}
                // Closed by the other side.
                _ = talk(stream, &shared) => {}
            }
        });
    }
}

async fn talk(stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut news = shared.news.subscribe();
    let shown = shared.table().clock().as_micros();
    writer.write_all(format!("@{shown}\n").as_bytes()).await?;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => match line? {
                None => return Ok(()),
                // Requests after a cut that the task which ends this one may not have noticed yet.
                Some(_) if !*shared.reachable.borrow() => return Ok(()),
                Some(line) => {
                    let (id, request) = line.split_once(' ').unwrap_or((&line, ""));
                    let answer = match shared.carry_out_wrongly(request).await {
                        Some(answer) => answer,
                        None => shared.carry_out(request).unwrap_or_else(|| "REFUSED".to_owned()),
                    };
                    format!("{id} {answer}\n")
                }
            },
            // A connection that is too slow misses some messages, because they are hints.
            Ok(news) = news.recv() => format!("{news}\n"),
        };
        writer.write_all(line.as_bytes()).await?;
    }
}

/// The duration of a mistake.
const MOMENT: Duration = Duration::from_millis(10);

impl Shared {
    fn makes(&self, mistake: Mistake) -> bool {
        self.table().makes(mistake)
    }

    /// Executes a request with a mistake that takes a moment. `None`: it is not one of these.
    async fn carry_out_wrongly(self: &Arc<Self>, request: &str) -> Option<String> {
        let mut words = Words::of(request);
        let (_, what, key) = (words.text()?, words.text()?, unhex(words.text()?)?);
        if what == "ACQUIRE" && self.makes(Mistake::LooksAndThenTakes) {
            let is_free = self.table().is_free(&key);
            tokio::time::sleep(MOMENT).await;
            if is_free {
                self.table().forget(&key);
            }
        }
        if what == "RELEASE" && self.makes(Mistake::ReleasesLater) {
            let (this, request) = (self.clone(), request.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep(MOMENT).await;
                this.carry_out(&request)
            });
            return Some("RELEASED".to_owned());
        }
        None
    }

    /// The reply to a request that is too late. `None`: it is in time.
    fn is_too_late(&self, until: &str) -> Option<String> {
        let now = self.table().clock().as_micros();
        let is_late = until.parse().is_ok_and(|until: u128| until < now);
        (is_late && !self.makes(Mistake::CarriesOutLateCommands)).then(|| format!("LATE {now}"))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(&self, request: &str) -> Option<String> {
        let mut words = Words::of(request);
        let (until, what, key) = (words.text()?, words.text()?, words.text()?);
        if let Some(late) = self.is_too_late(until) {
            return Some(late);
        }
        if what == "SESSION" {
            return Some(self.table().heartbeat(key, words.span()?).to_owned());
        }
        if what == "LIST" {
            let (most, after) = (words.number()?, words.text().and_then(unhex));
            let keys = self.table().list(&unhex(key.strip_prefix('/')?)?, after.as_deref(), most);
            return Some(keys.iter().fold("KEYS".to_owned(), |line, key| line + " " + &hex(key)));
        }
        if what == "EXAMINE" {
            return Some(self.table().examine().to_owned());
        }
        let mut news = Vec::new();
        let answer = if what == "END" {
            Some(self.table().end_session(key, &mut news).to_owned())
        } else {
            self.requests.fetch_add(1, Ordering::SeqCst);
            self.table().carry_out(what, &unhex(key)?, &mut words, &mut news)
        };
        for news in news {
            let told = self.told.fetch_add(1, Ordering::Relaxed);
            if self.makes(Mistake::NotifiesNobody) || self.makes(Mistake::LosesNotifications) && told % 3 == 2
            {
                continue;
            }
            // No client is connected.
            drop(self.news.send(news));
        }
        answer
    }
}
