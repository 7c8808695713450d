//! Tests of connections to a real server.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use redis::{Pipeline, RedisConnectionInfo, Value, cmd};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::reader_policy::A_CALLER;
use super::{Batch, Connection, Stop};
use crate::backend::redis::config::{Address, RedisConfig, ServerLocation};
use crate::backend::redis::stream::{Liveness, Stream};
use crate::backend::redis::test_server::TestServer;
use crate::backend::redis::tls::Tls;
use crate::reply_batch::{self, Deferred};

/// A connection whose driver has a separate thread, as in a manager. `S` is its server.
pub(super) struct Rig<S = TestServer> {
    pub(super) connection: Arc<Connection>,
    pub(super) liveness: Arc<Liveness>,
    pub(super) driver: JoinHandle<()>,
    pub(super) io: Runtime,
    pub(super) server: S,
}

impl Rig {
    pub(super) fn start() -> Rig {
        let server = TestServer::start(&[]);
        let url = server.url();
        Rig::of(server, &url)
    }

    pub(super) fn of(server: TestServer, url: &str) -> Rig {
        let config = RedisConfig::new(url, "a").unwrap();
        let ServerLocation::Fixed(address) = config.place else { panic!("not the address of a server") };
        Rig::connect(&address, &config.tls, server, async |stream| {
            Connection::log_in(&RedisConnectionInfo::default(), stream).await.unwrap()
        })
    }
}

impl Rig<TcpStream> {
    /// Connected to the test, which plays the server.
    pub(super) fn to_peer() -> Rig<TcpStream> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        let accepting = thread::spawn(move || listener.accept().unwrap().0);
        let Rig { connection, liveness, driver, io, server } =
            Rig::connect(&address, &Default::default(), accepting, async |stream| Connection::over(stream));
        Rig { connection, liveness, driver, io, server: server.join().unwrap() }
    }
}

impl<S> Rig<S> {
    fn connect(
        address: &Address,
        tls: &Tls,
        server: S,
        log_in: impl AsyncFnOnce(Stream) -> Arc<Connection>,
    ) -> Rig<S> {
        let io = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let liveness = Arc::new(Liveness::default());
        let connection = io.block_on(async {
            log_in(Stream::connect(address, tls, Arc::clone(&liveness)).await.unwrap()).await
        });
        let driver = io.spawn(Arc::clone(&connection).drive());
        Rig { connection, liveness, driver, io, server }
    }
}

pub(super) async fn echoes(connection: &Arc<Connection>, word: String) {
    let value = connection.request(cmd("ECHO").arg(&word).clone()).await.unwrap();
    assert!(value == Value::BulkString(word.into_bytes()), "another reply");
}

/// Sends a command, and drops its future before the reply arrives.
pub(super) async fn asks_and_goes(connection: &Arc<Connection>) {
    let mut asking = pin!(connection.request(cmd("PING")));
    let _: Poll<()> = poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx).map(drop))).await;
}

#[test]
fn everybody_gets_the_reply_to_their_own_command() {
    const TASKS: usize = 48;
    const COMMANDS: usize = 300;
    let rig = Rig::start();
    let callers = Builder::new_multi_thread().worker_threads(3).build().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let connection = Arc::clone(&rig.connection);
            callers.spawn(async move {
                for number in 0..COMMANDS {
                    echoes(&connection, format!("{task}:{number}")).await;
                    if number % 7 == task % 7 {
                        asks_and_goes(&connection).await;
                    }
                    if number % 50 == 0 {
                        let mut pipeline = Pipeline::new();
                        pipeline.cmd("ECHO").arg(task).cmd("NO-SUCH-COMMAND").cmd("ECHO").arg(number);
                        let values = connection.request_all(&pipeline).await.unwrap();
                        let echo = |number: usize| Value::BulkString(number.to_string().into_bytes());
                        assert_eq!([&values[0], &values[2]], [&echo(task), &echo(number)]);
                        assert!(matches!(values[1], Value::ServerError(_)));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        callers.block_on(task).unwrap();
    }
}

/// The bytes are more than the sockets accept at once. The driver continues where the callers had to stop.
#[test]
fn what_the_socket_does_not_take_at_once_is_written_later() {
    const BIG: usize = 4 << 20;
    let rig = Rig::start();
    let callers = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    rig.server.stop();
    let tasks: Vec<_> = ["a", "b", "c", "d"]
        .map(|letter| {
            let connection = Arc::clone(&rig.connection);
            callers.spawn(async move { echoes(&connection, letter.repeat(BIG)).await })
        })
        .into();
    callers.block_on(async {
        while rig.connection.queue.lock().replies.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
    });
    rig.server.resume();
    for task in tasks {
        callers.block_on(task).unwrap();
    }
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Reads this many commands, and only then replies to all of them.
fn reply_when_all_are_here(peer: &mut TcpStream, commands: usize) {
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut read = vec![0; commands * PING.len()];
    peer.read_exact(&mut read).expect("commands are held back until a reply comes");
    assert_eq!(read, PING.repeat(commands));
    peer.write_all(&b"+PONG\r\n".repeat(commands)).unwrap();
}

/// On a slow connection.
#[test]
fn a_burst_of_commands_takes_one_round_trip() {
    let mut rig = Rig::to_peer();
    let callers = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for burst in [1, 2, 3, 16, 200] {
        let pings: Vec<_> = (0..burst)
            .map(|_| {
                let connection = Arc::clone(&rig.connection);
                callers.spawn(async move { connection.request(cmd("PING")).await })
            })
            .collect();
        reply_when_all_are_here(&mut rig.server, burst);
        for ping in pings {
            callers.block_on(ping).unwrap().unwrap();
        }
    }
}

/// A reader that finds out that it was replaced has had the socket locked until then.
#[test]
fn a_reader_that_was_replaced_writes_what_a_caller_has_left() {
    let mut rig = Rig::to_peer();
    let mut asking = pin!(rig.connection.request(cmd("PING")));
    {
        let _stale_reader_looks = rig.connection.socket.lock();
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let stop = {
        let _entered = rig.io.enter();
        let mut cx = Context::from_waker(Waker::noop());
        rig.connection.poll_drive_once(A_CALLER, &mut Batch::default(), &mut cx)
    };
    assert!(matches!(stop, Poll::Ready(Some(Stop::Replaced))));
    reply_when_all_are_here(&mut rig.server, 1);
    rig.io.block_on(asking).unwrap();
}

/// A waker that leaves work to the thread that has read the reply.
struct Defers(mpsc::Sender<ThreadId>);

impl Wake for Defers {
    fn wake(self: Arc<Self>) {
        // Otherwise, the test learns that the sender was dropped.
        drop(reply_batch::defer(self));
    }
}

impl Deferred for Defers {
    fn run(self: Arc<Self>) {
        self.0.send(thread::current().id()).unwrap();
    }
}

#[test]
fn the_thread_that_reads_replies_does_the_work_that_nobody_awaits() {
    let rig = Rig::start();
    let (sender, worked) = mpsc::channel();
    let waker = Waker::from(Arc::new(Defers(sender)));
    let mut asking = pin!(rig.connection.request(cmd("PING")));
    rig.server.stop();
    assert!(asking.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    rig.server.resume();
    drop(waker);
    let driver = rig.io.block_on(rig.io.spawn(async { thread::current().id() })).unwrap();
    assert_eq!(worked.recv(), Ok(driver));
    rig.io.block_on(asking).unwrap();
}

#[test]
fn at_the_end_every_request_fails_and_so_does_every_later_one() {
    let rig = Rig::start();
    rig.server.stop();
    let pings: Vec<_> = (0..20)
        .map(|_| {
            let connection = Arc::clone(&rig.connection);
            rig.io.spawn(async move { connection.request(cmd("PING")).await })
        })
        .collect();
    rig.driver.abort();
    for ping in pings {
        assert!(rig.io.block_on(ping).unwrap().is_err());
    }
    assert!(rig.io.block_on(rig.connection.request(cmd("PING"))).is_err());
    rig.server.resume();
}

#[test]
fn a_driver_that_ends_before_it_was_polled_ends_every_request() {
    let rig = Rig::start();
    let config = RedisConfig::new(&rig.server.url(), "b").unwrap();
    let ServerLocation::Fixed(address) = config.place else { panic!("not the address of a server") };
    let connection = rig.io.block_on(async {
        let stream = Stream::connect(&address, &config.tls, Arc::default()).await.unwrap();
        Connection::log_in(&RedisConnectionInfo::default(), stream).await.unwrap()
    });
    let asking = rig.io.spawn({
        let connection = Arc::clone(&connection);
        async move { connection.request(cmd("PING")).await }
    });
    rig.io.block_on(async {
        while connection.queue.lock().replies.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
    });
    drop(Arc::clone(&connection).drive());
    assert!(rig.io.block_on(asking).unwrap().is_err());
}
