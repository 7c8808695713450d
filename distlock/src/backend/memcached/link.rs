//! One connection, on which commands follow each other without waiting for answers.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::leases::Leases;
use super::meta::{Command, Line, Said, written};
use crate::store::StoreError;

/// No line of an answer is longer, and no value: what is not ours is not read to its end.
const MOST_BYTES: usize = 1024 * 1024;

/// The connection, while there is one.
#[derive(Default)]
pub(super) struct Link(Mutex<Option<Arc<Connection>>>);

/// A connection to one life of one server.
#[derive(Debug)]
pub(super) struct Connection {
    requests: mpsc::UnboundedSender<Request>,
    next: AtomicU32,
    /// The items that we wrote over this connection. A version means nothing to another life of the server.
    pub(super) leases: Mutex<Leases>,
}

#[derive(Debug)]
struct Request {
    bytes: Vec<u8>,
    number: u32,
    reply: oneshot::Sender<Said>,
}

/// A command that was sent, and is not answered yet.
#[derive(Debug)]
struct Awaited {
    sent: Instant,
    number: u32,
    reply: oneshot::Sender<Said>,
}

/// What keeps a connection going.
pub(super) struct Driver {
    requests: mpsc::UnboundedReceiver<Request>,
    stream: TcpStream,
    /// How long an answer may take.
    patience: Duration,
}

impl Link {
    pub(super) fn set(&self, connection: Option<Arc<Connection>>) {
        *lock(&self.0) = connection;
    }

    pub(super) fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        let connection = lock(&self.0).clone();
        connection.ok_or_else(|| StoreError::not_sent("there is no connection to Memcached"))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("is_up", &lock(&self.0).is_some()).finish()
    }
}

impl Connection {
    /// Over a stream; nothing moves unless the driver does.
    pub(super) fn over(stream: TcpStream, patience: Duration) -> (Arc<Self>, Driver) {
        let (sender, requests) = mpsc::unbounded_channel();
        let connection = Connection { requests: sender, next: AtomicU32::new(0), leases: Mutex::default() };
        (Arc::new(connection), Driver { requests, stream, patience })
    }

    /// Asks about the item of a key.
    pub(super) async fn ask(&self, key: &str, command: Command<'_>) -> Result<Said, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(written(key, command, number), number).await
    }

    /// Asks something that is not about an item.
    pub(super) async fn ask_line(&self, line: &str) -> Result<Said, StoreError> {
        self.send(format!("{line}\r\n").into_bytes(), 0).await
    }

    async fn send(&self, bytes: Vec<u8>, number: u32) -> Result<Said, StoreError> {
        let (reply, said) = oneshot::channel();
        if self.requests.send(Request { bytes, number, reply }).is_err() {
            return Err(StoreError::not_sent("the connection to Memcached was closed"));
        }
        match said.await {
            Ok(Said::Refused(said)) => Err(StoreError::refused(format!("{said}: {}", remedy(&said)))),
            Ok(Said::Failed(said)) => Err(StoreError::later(format!("{said}: {}", remedy(&said)))),
            Ok(said) => Ok(said),
            // It may have arrived, or not.
            Err(_) => Err(StoreError::unknown("the connection to Memcached was lost")),
        }
    }
}

/// What to do about a refusal.
fn remedy(said: &str) -> &'static str {
    if said.contains("unauthenticated") {
        "the server wants a user and a password: `memcached://user:password@host:port`"
    } else if said.contains("out of memory") {
        "the server is full and may not forget other items (`-M`): give it more memory (`-m`)"
    } else if said.starts_with("SERVER_ERROR") {
        "look at the server"
    } else {
        "Memcached 1.6.12 or later is needed, without a proxy in front of it that does not know meta commands"
    }
}

impl Driver {
    /// Until the connection ends; says why.
    pub(super) async fn run(self) -> StoreError {
        let Driver { requests, stream, patience } = self;
        let (reader, writer) = stream.into_split();
        let awaited = Mutex::default();
        let ended = tokio::select! {
            ended = write_all(requests, writer, &awaited) => ended,
            ended = read_all(reader, patience, &awaited) => ended,
        };
        let cause = ended.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
        StoreError::unknown(format!("the connection to Memcached has ended: {cause}"))
    }
}

/// Commands that wait go out together.
async fn write_all(
    mut requests: mpsc::UnboundedReceiver<Request>,
    mut writer: OwnedWriteHalf,
    awaited: &Mutex<VecDeque<Awaited>>,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(first) = requests.recv().await {
        bytes.clear();
        let mut next = Some(first);
        while let Some(request) = next {
            bytes.extend_from_slice(&request.bytes);
            let Request { number, reply, .. } = request;
            lock(awaited).push_back(Awaited { sent: Instant::now(), number, reply });
            next = requests.try_recv().ok();
        }
        writer.write_all(&bytes).await?;
    }
    Ok(())
}

async fn read_all(
    reader: OwnedReadHalf,
    patience: Duration,
    awaited: &Mutex<VecDeque<Awaited>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(reader);
    loop {
        // A read that is given up has taken nothing.
        if timeout(patience, reader.fill_buf()).await.is_err() {
            let oldest = lock(awaited).front().map(|awaited| awaited.sent.elapsed());
            if oldest.is_some_and(|waits| waits >= patience) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"));
            }
            continue;
        }
        let read = timeout(patience, read_one(&mut reader, awaited)).await;
        read.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "half an answer"))??;
    }
}

async fn read_one(
    reader: &mut BufReader<OwnedReadHalf>,
    awaited: &Mutex<VecDeque<Awaited>>,
) -> io::Result<()> {
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is not understood");
    let mut line = Vec::new();
    reader.take(MOST_BYTES as u64).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let read = Line::of(line.strip_suffix(b"\r\n").ok_or_else(garbled)?).ok_or_else(garbled)?;
    let mut value = Vec::new();
    if let Some(bytes) = read.value {
        if bytes > MOST_BYTES {
            return Err(garbled());
        }
        value.resize(bytes + 2, 0);
        reader.read_exact(&mut value).await?;
        value.truncate(bytes);
    }
    let Some(Awaited { number, reply, .. }) = lock(awaited).pop_front() else { return Err(garbled()) };
    let said = read.said(&value, number).ok_or_else(garbled)?;
    // Whoever asked may have gone.
    drop(reply.send(said));
    Ok(())
}

/// A panic while it is locked is a mistake of ours.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
