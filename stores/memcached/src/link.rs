//! One connection with pipelined commands.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::leases::Leases;
use super::meta::{Command, Line, Response, TICK, TOO_MANY, Ttl, has_two_replies, written};
use super::server_clock::ServerClock;
use distlock_store::StoreError;
use distlock_store::clock;
use distlock_store::engine::Time;
use distlock_store::kit::sync::Locked;

/// The maximum length of a line and of a value of a reply, in case the peer is not Memcached.
const MOST_BYTES: usize = 1024 * 1024;
/// No item is written if the server's clock may be behind by more than this, because an item would outlive a dead
/// process by as much. An idle connection is checked more often, but this process may have been paused.
const MOST_BEHIND: Duration = Duration::from_secs(10);
/// By how much an item may outlast the requested time.
pub(super) const LONGER: Duration = Duration::from_secs(13);
/// The number of bytes that are read at a time.
const READ_TOGETHER: usize = 8 * 1024;

/// A connection to one server, between two of its restarts.
#[derive(Debug)]
pub(super) struct Connection {
    writer: OwnedWriteHalf,
    queue: Locked<Queue>,
    /// The driver has something to write.
    unsent: Notify,
    next: AtomicU32,
    /// The items that were written over this connection. After a restart of the server, their versions mean nothing.
    pub(super) leases: Locked<Leases>,
}

/// The state that callers and the driver share.
#[derive(Debug)]
struct Queue {
    /// The bytes that the driver will write. A caller awaits each of these commands.
    unsent: Vec<u8>,
    /// Commands without a reply so far, in order.
    awaited: VecDeque<Awaited>,
    /// When something was last read.
    heard: Instant,
    clock: ServerClock,
    has_ended: bool,
}

#[derive(Debug)]
struct Awaited {
    sent: Instant,
    /// The time of this command, for leases.
    asked: Time,
    number: u32,
    write: Write,
    reply: oneshot::Sender<Response>,
}

/// The reply before the last one.
#[derive(Debug)]
enum Write {
    /// There is only one reply.
    None,
    Awaited {
        is_add: bool,
    },
    Said {
        said: Response,
        is_add: bool,
    },
}

/// The task that reads and writes a connection.
pub(super) struct Driver {
    connection: Arc<Connection>,
    reader: OwnedReadHalf,
    /// How long a reply may take.
    response_timeout: Duration,
}

impl Connection {
    /// A connection on a stream that was requested at `begun`. Only the driver reads.
    pub(super) fn over(stream: TcpStream, begun: Time, response_timeout: Duration) -> (Arc<Self>, Driver) {
        let (reader, writer) = stream.into_split();
        let (unsent, awaited, heard) = (Vec::new(), VecDeque::new(), Instant::now());
        let clock = ServerClock::accepted_after(begun);
        let connection = Arc::new(Connection {
            writer,
            queue: Locked::new(Queue { unsent, awaited, heard, clock, has_ended: false }),
            unsent: Notify::new(),
            next: AtomicU32::new(0),
            leases: Locked::default(),
        });
        (connection.clone(), Driver { connection, reader, response_timeout })
    }

    /// The expiry that makes an item last at least for this long, if it is written from now on.
    pub(super) fn lasting(&self, time: Duration) -> Result<Ttl, StoreError> {
        let now = clock::now();
        let behind = self.queue.lock().clock.behind(now);
        if behind > MOST_BEHIND {
            return Err(StoreError::later(format!(
                "Memcached has not answered for {behind:?}: its clock, by which the item expires, may have \
                 stopped"
            )));
        }
        Ok(Ttl::at_least(time, now, behind))
    }

    /// The minimum remaining time of an item for which the server reports this remaining time.
    pub(super) fn certain(&self, remaining: Duration) -> Duration {
        let behind = self.queue.lock().clock.behind(clock::now());
        remaining.saturating_sub(behind + TICK)
    }

    /// Sends a command for the item of a key.
    pub(super) async fn ask(&self, key: &str, command: Command<'_>) -> Result<Response, StoreError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let is_add = matches!(command, Command::Add { .. });
        let write = if has_two_replies(key, command) { Write::Awaited { is_add } } else { Write::None };
        let said = self.send(written(key, command, number), number, write).await?.to(command);
        let version = match &said {
            Response::Done(version) => *version,
            Response::Found(item) | Response::Exists(Some(item)) => Some(item.cas),
            _ => None,
        };
        // Under a version of zero, a late release would remove the item of the next holder.
        if version == Some(0) {
            return Err(StoreError::refused(format!(
                "the item of `{key}` has no version: start the server without `-C`, which switches versions (CAS) off"
            )));
        }
        Ok(said)
    }

    /// Sends a command that is not for an item.
    pub(super) async fn ask_line(&self, line: &str) -> Result<Response, StoreError> {
        self.send(format!("{line}\r\n").into_bytes(), 0, Write::None).await
    }

    async fn send(&self, bytes: Vec<u8>, number: u32, write: Write) -> Result<Response, StoreError> {
        let (reply, said) = oneshot::channel();
        let awaited = Awaited { sent: Instant::now(), asked: clock::now(), number, write, reply };
        if !self.enqueue(&bytes, awaited) {
            return Err(StoreError::not_sent("the connection to Memcached was closed"));
        }
        match said.await {
            Ok(Response::Refused(said)) => Err(StoreError::refused(format!("{said}: {}", remedy(&said)))),
            Ok(Response::Failed(said)) => Err(StoreError::later(format!("{said}: {}", remedy(&said)))),
            Ok(said) => Ok(said),
            // The command may have been executed.
            Err(_) => Err(StoreError::unknown("the connection to Memcached was lost")),
        }
    }

    /// `false`: the connection has ended.
    fn enqueue(&self, bytes: &[u8], awaited: Awaited) -> bool {
        let mut queue = self.queue.lock();
        if queue.has_ended {
            return false;
        }
        let is_alone = queue.awaited.is_empty();
        queue.awaited.push_back(awaited);
        // A caller that is alone writes directly, which wakes no task. For many callers, the driver writes all at once.
        // No other code writes now, because every unsent command has a waiting caller.
        let written = if is_alone { self.writer.try_write(bytes).unwrap_or(0) } else { 0 };
        match bytes.get(written..) {
            None | Some([]) => {}
            Some(rest) => {
                queue.unsent.extend_from_slice(rest);
                drop(queue);
                self.unsent.notify_one();
            }
        }
        true
    }
}

/// The remedy for a refusal.
fn remedy(said: &str) -> &'static str {
    if said.contains("unauthenticated") {
        "the server requires a user and a password: `memcached://user:password@host:port`"
    } else if said.contains("out of memory") {
        "the server is full and may not evict other items (`-M`): give it more memory (`-m`)"
    } else if said.contains(TOO_MANY) {
        "raise the limit of the server (`-c`), or close connections of other programs"
    } else if said.starts_with("SERVER_ERROR") {
        "check the server"
    } else {
        "Memcached 1.6.12 or later is needed, without a proxy in front of it that does not know meta commands"
    }
}

impl Driver {
    /// Runs until the connection ends. Returns the reason.
    pub(super) async fn run(self) -> StoreError {
        let Driver { connection, reader, response_timeout } = self;
        let end = EndOnDrop(&connection);
        let ended = tokio::select! {
            biased;
            // Polled before the time-out of the server, because this process may have been paused.
            ended = read_all(reader, &connection) => ended,
            ended = write_all(&connection) => ended,
            () = silence(&connection, response_timeout) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"))
            }
        };
        drop(end);
        let cause = ended.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
        StoreError::unknown(format!("the connection to Memcached has ended: {cause}"))
    }
}

/// No command is sent over the connection from now on, and no caller gets a reply.
struct EndOnDrop<'a>(&'a Connection);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.has_ended = true;
        let awaited = std::mem::take(&mut queue.awaited);
        drop(queue);
        drop(awaited);
    }
}

/// Writes all waiting commands together.
async fn write_all(connection: &Connection) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        std::mem::swap(&mut bytes, &mut connection.queue.lock().unsent);
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            connection.writer.writable().await?;
            match connection.writer.try_write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if written == 0 {
            connection.unsent.notified().await;
        }
        bytes.clear();
    }
}

/// Runs until a reply has been missing for this long, without any data from the server.
async fn silence(connection: &Connection, response_timeout: Duration) {
    loop {
        let since = {
            let queue = connection.queue.lock();
            queue.awaited.front().map(|oldest| oldest.sent.max(queue.heard))
        };
        let left = since.map_or(response_timeout, |since| response_timeout.saturating_sub(since.elapsed()));
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

async fn read_all(mut reader: OwnedReadHalf, connection: &Connection) -> io::Result<()> {
    let garbled = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is not understood");
    let mut bytes = Vec::with_capacity(READ_TOGETHER);
    let mut told = Vec::new();
    loop {
        bytes.reserve(READ_TOGETHER);
        if reader.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut read = 0;
        let mut queue = connection.queue.lock();
        queue.heard = Instant::now();
        let now = clock::now();
        while let Some(rest) = bytes.get(read..).filter(|rest| !rest.is_empty()) {
            let Some(RawResponse { line, value, length }) =
                RawResponse::first_of(rest).ok_or_else(garbled)?
            else {
                break;
            };
            read += length;
            let Awaited { number, write, .. } = queue.awaited.front_mut().ok_or_else(garbled)?;
            let said = line.said(value, *number).ok_or_else(garbled)?;
            if let Write::Awaited { is_add } = *write {
                *write = Write::Said { said, is_add };
                continue;
            }
            let Some(Awaited { asked, write, reply, .. }) = queue.awaited.pop_front() else {
                return Err(garbled());
            };
            queue.clock.answered(asked, now);
            let said = match write {
                Write::Said { said: written, is_add } => written.then(said, is_add),
                Write::None | Write::Awaited { .. } => said,
            };
            told.push((reply, said));
        }
        drop(queue);
        bytes.drain(..read);
        for (reply, said) in told.drain(..) {
            // The caller may have been dropped.
            drop(reply.send(said));
        }
    }
}

/// One reply.
pub(super) struct RawResponse<'a> {
    pub(super) line: Line<'a>,
    pub(super) value: &'a [u8],
    /// The length of the whole reply.
    pub(super) length: usize,
}

impl<'a> RawResponse<'a> {
    /// `None`: it is not understood. `Some(None)`: the rest has not arrived yet.
    pub(super) fn first_of(bytes: &'a [u8]) -> Option<Option<Self>> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return (bytes.len() <= MOST_BYTES).then_some(None);
        };
        let (line, rest) = bytes.split_at_checked(end + 1)?;
        let line = Line::of(line.strip_suffix(b"\r\n")?)?;
        let Some(size) = line.value else {
            return Some(Some(RawResponse { line, value: &[], length: end + 1 }));
        };
        if size > MOST_BYTES {
            return None;
        }
        // The line end belongs to the value.
        let Some((value, behind)) = rest.get(..size + 2).and_then(|both| both.split_at_checked(size)) else {
            return Some(None);
        };
        (behind == b"\r\n").then_some(Some(RawResponse { line, value, length: end + 1 + size + 2 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_of(text: &str) -> Option<Option<(Option<usize>, String, usize)>> {
        let said = |answer: RawResponse<'_>| {
            (answer.line.value, String::from_utf8_lossy(answer.value).into_owned(), answer.length)
        };
        RawResponse::first_of(text.as_bytes()).map(|answer| answer.map(said))
    }

    #[test]
    fn a_server_at_its_limit_of_connections_names_the_option_that_raises_it() {
        assert!(remedy("ERROR Too many open connections").contains("`-c`"));
        assert!(remedy("ERROR").contains("1.6.12 or later"));
    }

    #[test]
    fn answers_are_told_apart_wherever_what_was_read_ends() {
        let text = "VA 3 c5 t9 O7\r\na\nb\r\nHD c6 O8\r\n";
        let value = text.len() - "HD c6 O8\r\n".len();
        for end in 0..value {
            assert_eq!(first_of(&text[..end]), Some(None), "{end}");
        }
        assert_eq!(first_of(text), Some(Some((Some(3), "a\nb".to_owned(), value))));
        assert_eq!(first_of(&text[value..]), Some(Some((None, String::new(), text.len() - value))));
        assert_eq!(first_of("HD O7\n"), None, "the end of a line is another one");
        assert_eq!(first_of("VA 1048577 O7\r\n"), None, "too long a value");
        assert_eq!(first_of("VA 3 c5 O7\r\na\nbHD c6 O8\r\n"), None, "a value without its end");
        assert_eq!(first_of(&"x".repeat(MOST_BYTES + 1)), None, "too long a line");
    }
}
