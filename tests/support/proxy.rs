//! A TCP link in userland that a test can make slow, silent or dead.
//!
//! Invariant: a connection never delivers bytes after it has lost some. As on a real network, a link that swallowed
//! something stays silent until it is cut; only connections made afterwards work again.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpSocket, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// Which way a fault works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Pass,
    Delay(Duration),
    Hold,
    Swallow,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    requests: Flow,
    replies: Flow,
    open: bool,
    /// Connections of an earlier epoch are cut.
    epoch: u64,
    stopped: bool,
}

impl Link {
    fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::Requests => self.requests,
            Direction::Replies => self.replies,
        }
    }

    fn set(&mut self, direction: Direction, flow: Flow) {
        match direction {
            Direction::Requests => self.requests = flow,
            Direction::Replies => self.replies = flow,
        }
    }
}

/// A proxy in front of a server, with a thread and a port of its own; closed when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    link: watch::Sender<Link>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free loopback port and forwards to `target` (`host:port`).
    #[must_use]
    pub fn to(target: &str) -> Self {
        let target: SocketAddr = target.parse().unwrap();
        let start = Link { requests: Flow::Pass, replies: Flow::Pass, open: true, epoch: 0, stopped: false };
        let (link, view) = watch::channel(start);
        let counters = Arc::new(Counters::default());
        let (ready, address) = mpsc::channel();
        let counting = counters.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(target, view, counting, ready));
        });
        Self { address: address.recv().unwrap(), link, counters, thread: Some(thread) }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a server without password behind this proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Back to normal: new connections work, held bytes are delivered. Connections that lost bytes stay silent.
    pub fn pass(&self) {
        self.link.send_modify(|link| {
            (link.requests, link.replies, link.open) = (Flow::Pass, Flow::Pass, true);
        });
    }

    /// Everything arrives this much later.
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.link.send_modify(|link| link.set(direction, Flow::Delay(by)));
    }

    /// Keeps bytes and delivers them, late and in order, after [`pass`](Proxy::pass): even when the client has closed
    /// its connection and made another one.
    pub fn hold(&self, direction: Direction) {
        self.link.send_modify(|link| link.set(direction, Flow::Hold));
    }

    /// Half open: bytes of this direction vanish silently, and so does the news that either side has closed.
    pub fn swallow(&self, direction: Direction) {
        self.link.send_modify(|link| link.set(direction, Flow::Swallow));
    }

    /// Half open in both directions.
    pub fn swallow_all(&self) {
        self.swallow(Direction::Requests);
        self.swallow(Direction::Replies);
    }

    /// Closes every connection, and returns when they are closed; new ones are accepted.
    pub fn cut(&self) {
        let before = self.accepted();
        self.link.send_modify(|link| link.epoch += 1);
        self.wait_for_the_end_of(before);
    }

    /// Closes every connection and the port: `ECONNREFUSED` until [`pass`](Proxy::pass).
    pub fn refuse(&self) {
        let before = self.accepted();
        self.link.send_modify(|link| {
            link.open = false;
            link.epoch += 1;
        });
        self.wait_for_the_end_of(before);
        crate::eventually_blocking("the proxy's port is closed", || {
            std::net::TcpStream::connect(self.address).is_err()
        });
    }

    fn wait_for_the_end_of(&self, connections: usize) {
        crate::eventually_blocking("connections are closed", || {
            self.counters.ended.load(Ordering::SeqCst) >= connections
        });
    }

    /// How many connections were ever accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.counters.accepted.load(Ordering::SeqCst)
    }

    /// How often a connection has begun to lose bytes in one direction.
    #[must_use]
    pub fn silenced(&self) -> usize {
        self.counters.silenced.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.send_modify(|link| link.stopped = true);
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy's thread has been printed and would hide the test's own.
            drop(thread.join());
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicUsize,
    ended: AtomicUsize,
    silenced: AtomicUsize,
}

async fn serve(
    target: SocketAddr,
    mut link: watch::Receiver<Link>,
    counters: Arc<Counters>,
    ready: mpsc::Sender<SocketAddr>,
) {
    let mut ready = Some(ready);
    let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
    loop {
        let listener = listen(address).await;
        address = listener.local_addr().unwrap();
        if let Some(ready) = ready.take() {
            ready.send(address).unwrap();
        }
        let mut closing = link.clone();
        loop {
            tokio::select! {
                connection = listener.accept() => {
                    let Ok((client, _)) = connection else { continue };
                    counters.accepted.fetch_add(1, Ordering::SeqCst);
                    let epoch = link.borrow().epoch;
                    tokio::spawn(forward(client, target, epoch, link.clone(), counters.clone()));
                }
                _ = closing.wait_for(|link| !link.open || link.stopped) => break,
            }
        }
        drop(listener);
        if link.wait_for(|link| link.open || link.stopped).await.is_ok_and(|link| link.stopped) {
            return;
        }
    }
}

async fn listen(address: SocketAddr) -> TcpListener {
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        if socket.bind(address).is_ok() {
            return socket.listen(1024).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn forward(
    client: TcpStream,
    target: SocketAddr,
    epoch: u64,
    link: watch::Receiver<Link>,
    counters: Arc<Counters>,
) {
    let Ok(server) = TcpStream::connect(target).await else {
        counters.ended.fetch_add(1, Ordering::SeqCst);
        return;
    };
    for stream in [&client, &server] {
        // A socket that is closed already has no use for it.
        drop(stream.set_nodelay(true));
    }
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let both = async {
        tokio::join!(
            pump(client_read, server_write, link.clone(), Direction::Requests, &counters),
            pump(server_read, client_write, link.clone(), Direction::Replies, &counters),
        )
    };
    let mut watcher = link.clone();
    tokio::select! {
        _ = both => {}
        // Closed, too: one that came in the moment before the port was closed.
        _ = watcher.wait_for(|link| link.epoch != epoch || !link.open || link.stopped) => {}
    }
    counters.ended.fetch_add(1, Ordering::SeqCst);
}

/// Copies one direction until it ends; then the other side is told, unless the link has lost something.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    direction: Direction,
    counters: &Counters,
) {
    let mut buffer = vec![0; 64 * 1024];
    let mut lost = false;
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        let mut flow = link.borrow_and_update().flow(direction);
        if flow == Flow::Hold {
            match link.wait_for(|link| link.flow(direction) != Flow::Hold).await {
                Ok(link) => flow = link.flow(direction),
                Err(_) => return,
            }
        }
        if let Flow::Delay(by) = flow {
            tokio::time::sleep(by).await;
        }
        if flow == Flow::Swallow && !lost {
            lost = true;
            counters.silenced.fetch_add(1, Ordering::SeqCst);
        }
        match (count, lost) {
            // The end of a connection is lost like everything else: wait to be cut.
            (0, true) => std::future::pending::<()>().await,
            (0, false) => return drop(to.shutdown().await),
            (_, true) => {}
            (_, false) => {
                if to.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use redis::{Connection, RedisResult};

    use super::*;
    use crate::{RedisServer, eventually_blocking};

    fn connect(url: String) -> RedisResult<Connection> {
        let connection = redis::Client::open(url)?.get_connection_with_timeout(Duration::from_secs(10))?;
        connection.set_read_timeout(Some(Duration::from_millis(200)))?;
        Ok(connection)
    }

    fn ping(connection: &mut Connection) -> RedisResult<String> {
        redis::cmd("PING").query(connection)
    }

    #[test]
    fn a_cut_ends_connections_and_accepts_new_ones() {
        let server = RedisServer::start();
        let proxy = Proxy::to(&server.address());
        let mut first = connect(proxy.url()).unwrap();
        assert!(ping(&mut first).is_ok());
        proxy.cut();
        assert!(ping(&mut first).is_err());
        assert!(ping(&mut connect(proxy.url()).unwrap()).is_ok());
        assert_eq!(proxy.accepted(), 2);
    }

    #[test]
    fn swallowed_replies_leave_the_request_applied_and_the_connection_dead() {
        let server = RedisServer::start();
        let proxy = Proxy::to(&server.address());
        let mut client = connect(proxy.url()).unwrap();
        proxy.swallow(Direction::Replies);
        let lost: RedisResult<()> = redis::cmd("SET").arg("k").arg("v").query(&mut client);
        assert!(lost.is_err_and(|error| error.is_timeout()));
        assert_eq!(server.get("k").as_deref(), Some("v"));
        proxy.pass();
        assert!(ping(&mut client).is_err(), "a link that lost bytes stays silent");
        assert!(ping(&mut connect(proxy.url()).unwrap()).is_ok());
    }

    #[test]
    fn held_requests_arrive_late_even_when_their_client_is_gone() {
        let server = RedisServer::start();
        let proxy = Proxy::to(&server.address());
        let mut client = connect(proxy.url()).unwrap();
        proxy.hold(Direction::Requests);
        let lost: RedisResult<()> = redis::cmd("SET").arg("k").arg("v").query(&mut client);
        assert!(lost.is_err());
        drop(client);
        assert_eq!(server.get("k"), None);
        proxy.pass();
        eventually_blocking("the held command arrives", || server.get("k").is_some());
    }

    #[test]
    fn a_refusing_proxy_refuses_until_it_passes_again() {
        let server = RedisServer::start();
        let proxy = Proxy::to(&server.address());
        proxy.refuse();
        let refused = std::net::TcpStream::connect(proxy.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.pass();
        eventually_blocking("the port is open again", || {
            connect(proxy.url()).is_ok_and(|mut it| ping(&mut it).is_ok())
        });
    }
}
