//! Tests of readers on the callers' runtime, with real servers and with a peer that replies byte by byte.

use std::io::Write;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use redis::{RedisResult, Value, cmd};
use tokio::io::AsyncWrite;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinHandle};
use tokio::time::timeout;

use super::Connection;
use super::reader_policy::Reader;
use super::tests::{Rig, asks_and_goes, echoes};
use crate::backend::redis::test_server::{LONG, block_on, wait_until};
use crate::backend::redis::test_tls_files::TlsFiles;
use crate::reply_batch::{self, Deferred};

fn callers() -> Runtime {
    with_io(Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

fn one_thread() -> Runtime {
    with_io(Builder::new_current_thread().enable_all().build().unwrap())
}

fn with_io(runtime: Runtime) -> Runtime {
    let entered = runtime.enter();
    super::caller_reader::this_runtime_has_io();
    drop(entered);
    runtime
}

fn caller_reads(connection: &Connection) -> bool {
    connection.queue.lock().reader_policy.reader() != Reader::IoThread
}

/// Sets the state after many quick requests, so the next request starts a reader on its runtime.
fn skip_to_start(connection: &Connection) {
    connection.queue.lock().reader_policy.skip_to_start();
}

/// Sends requests from the current runtime until it reads the replies.
async fn until_the_caller_reads(connection: &Arc<Connection>) {
    while !caller_reads(connection) {
        skip_to_start(connection);
        echoes(connection, "quick".to_owned()).await;
        tokio::task::yield_now().await;
    }
}

fn until_the_io_thread_reads(connection: &Connection) {
    wait_until("the I/O thread reads", LONG, || !caller_reads(connection));
}

#[test]
fn the_callers_runtime_reads_while_requests_are_quick_and_the_io_thread_when_they_end() {
    let rig = Rig::start();
    let callers = callers();
    callers.block_on(until_the_caller_reads(&rig.connection));
    until_the_io_thread_reads(&rig.connection);
    callers.block_on(until_the_caller_reads(&rig.connection));
    callers.block_on(echoes(&rig.connection, "either".to_owned()));
}

#[test]
fn without_a_single_poll_of_its_runtime_a_reader_is_replaced_for_a_request_from_elsewhere() {
    let rig = Rig::start();
    let callers = one_thread();
    callers.block_on(until_the_caller_reads(&rig.connection));
    block_on(echoes(&rig.connection, "from elsewhere".to_owned()));
    // The reader's task notices it when its runtime runs again.
    callers.block_on(echoes(&rig.connection, "again".to_owned()));
    wait_until("the reader's end", LONG, || {
        callers.block_on(tokio::task::yield_now());
        Arc::strong_count(&rig.connection) == 2
    });
}

#[test]
fn a_blocked_runtime_does_not_keep_its_own_reply_for_long() {
    let rig = Rig::start();
    let callers = one_thread();
    callers.block_on(until_the_caller_reads(&rig.connection));
    let _here = callers.enter();
    // The request comes from this runtime, which is blocked.
    block_on(echoes(&rig.connection, "blocked".to_owned()));
    until_the_io_thread_reads(&rig.connection);
}

#[test]
fn everybody_gets_the_reply_to_their_own_command_while_the_connection_moves() {
    everybody_gets_their_own(&Rig::start());
}

#[cfg(feature = "tls")]
#[test]
fn everybody_gets_the_reply_to_their_own_command_while_a_connection_with_tls_moves() {
    let tls_files = TlsFiles::issue();
    let (server, port) = tls_files.serve("yes");
    let url = format!("rediss://localhost:{port}/?{}", tls_files.files());
    everybody_gets_their_own(&Rig::of(server, &url));
}

fn everybody_gets_their_own(rig: &Rig) {
    const MOVES: usize = 30;
    let runtimes = [callers(), one_thread(), callers()];
    let over = Arc::new(AtomicBool::new(false));
    let ask = |name: usize| {
        let (connection, over) = (Arc::clone(&rig.connection), Arc::clone(&over));
        async move {
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                // Some replies are longer than one read.
                let length = if number % 16 == 0 { 40_000 } else { 1 };
                echoes(&connection, format!("{name}:{number}:").repeat(length)).await;
                if number % 5 == name % 5 {
                    asks_and_goes(&connection).await;
                }
            }
        }
    };
    thread::scope(|scope| {
        for (name, runtime) in runtimes.iter().enumerate() {
            let (one, other) = (ask(2 * name), ask(2 * name + 1));
            scope.spawn(move || {
                runtime.block_on(async { tokio::join!(tokio::spawn(one), other).0.unwrap() });
            });
        }
        let outside = ask(9);
        scope.spawn(move || block_on(outside));
        let mut moves = 0;
        wait_until("moves", 6 * LONG, || {
            skip_to_start(&rig.connection);
            moves += usize::from(caller_reads(&rig.connection));
            moves > MOVES
        });
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn runtimes_may_end_at_any_moment() {
    let rig = Rig::start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                number += 1;
                block_on(echoes(&rig.connection, format!("outside {number}")));
            }
        });
        for round in 0_u64..60 {
            let runtime = if round % 2 == 0 { callers() } else { one_thread() };
            for task in 0..3 {
                let connection = Arc::clone(&rig.connection);
                runtime.spawn(async move {
                    for number in 0.. {
                        skip_to_start(&connection);
                        echoes(&connection, format!("{task}:{number}")).await;
                    }
                });
            }
            runtime.block_on(async {
                if round % 3 > 0 {
                    until_the_caller_reads(&rig.connection).await;
                }
                for _ in 0..fastrand::u8(..20) {
                    tokio::task::yield_now().await;
                }
            });
            if round % 4 < 2 {
                runtime.shutdown_background();
            } else {
                drop(runtime);
            }
            block_on(echoes(&rig.connection, format!("after round {round}")));
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_command_that_is_half_written_when_its_runtime_ends_is_written_to_its_end() {
    half_written(&Rig::start());
}

#[cfg(feature = "tls")]
#[test]
fn a_command_that_is_half_written_with_tls_when_its_runtime_ends_is_written_to_its_end() {
    let tls_files = TlsFiles::issue();
    let (server, port) = tls_files.serve("yes");
    let url = format!("rediss://localhost:{port}/?{}", tls_files.files());
    half_written(&Rig::of(server, &url));
}

fn half_written(rig: &Rig) {
    const BIG: usize = 8 << 20;
    let callers = callers();
    callers.block_on(until_the_caller_reads(&rig.connection));
    rig.server.stop();
    for letter in ["a", "b"] {
        let connection = Arc::clone(&rig.connection);
        callers.spawn(async move { echoes(&connection, letter.repeat(BIG)).await });
    }
    wait_until("commands in flight", LONG, || rig.connection.queue.lock().replies.in_flight() == 2);
    drop(callers);
    thread::scope(|scope| {
        let after = scope.spawn(|| block_on(echoes(&rig.connection, "after".to_owned())));
        wait_until("the one behind them", LONG, || rig.connection.queue.lock().replies.in_flight() == 3);
        rig.server.resume();
        after.join().unwrap();
    });
}

#[test]
fn a_runtime_that_may_have_no_io_does_not_read_and_nothing_panics_there() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let rig = Rig::start();
    let callers = Builder::new_current_thread().build().unwrap();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Other tests panic on purpose.
        PANICS.fetch_add(usize::from(panic.to_string().contains("IO is disabled")), Ordering::Relaxed);
        before(panic);
    }));
    callers.block_on(async {
        for number in 0..50 {
            skip_to_start(&rig.connection);
            echoes(&rig.connection, number.to_string()).await;
            tokio::task::yield_now().await;
            assert!(!caller_reads(&rig.connection));
        }
    });
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

#[test]
fn a_connection_that_ends_while_the_callers_runtime_reads_ends_for_everybody_and_leaves_no_task() {
    let mut rig = Rig::start();
    let callers = callers();
    callers.block_on(until_the_caller_reads(&rig.connection));
    rig.server.kill();
    callers.block_on(async { while rig.connection.request(cmd("PING")).await.is_ok() {} });
    rig.io.block_on(&mut rig.driver).unwrap();
    wait_until("no task", LONG, || callers.metrics().num_alive_tasks() == 0);
}

#[test]
fn a_connection_that_is_aborted_while_the_callers_runtime_reads_is_closed_at_once() {
    let mut rig = Rig::start();
    let callers = one_thread();
    callers.block_on(until_the_caller_reads(&rig.connection));
    let connections = || rig.server.client_ids(|line| line.contains(" cmd=echo ")).len();
    assert_eq!(connections(), 1);
    rig.driver.abort();
    assert!(rig.io.block_on(&mut rig.driver).is_err());
    // The callers' runtime has not run since then.
    wait_until("closed", LONG, || connections() == 0);
    assert!(block_on(rig.connection.request(cmd("PING"))).is_err());
}

/// The part of a reply that has arrived is stored in the connection, not in its reader.
#[test]
fn a_reply_is_read_in_parts_by_several_readers() {
    let rig = Rig::to_peer();
    let callers = callers();
    let ask = |name: &'static str| {
        let connection = Arc::clone(&rig.connection);
        async move { (name, connection.request(cmd("GET").arg(name).clone()).await) }
    };
    let say = |text: &str| {
        let heard = rig.liveness.heard();
        (&rig.server).write_all(text.as_bytes()).unwrap();
        wait_until("heard", LONG, || rig.liveness.heard() > heard);
    };
    let first = callers.spawn(ask("first"));
    wait_until("the first", LONG, || rig.connection.queue.lock().replies.in_flight() == 1);
    say("$5\r\nfi");
    let mut asked = vec![first];
    while !caller_reads(&rig.connection) {
        skip_to_start(&rig.connection);
        asked.push(callers.spawn(ask("more")));
        let sent = asked.len();
        wait_until("one more", LONG, || rig.connection.queue.lock().replies.in_flight() == sent);
    }
    say("rst\r\n");
    for _ in 1..asked.len() {
        say("$4\r\nmore\r\n");
    }
    say("$4\r");
    let outside = thread::spawn({
        let last = ask("last");
        move || block_on(last)
    });
    // Without any request, the I/O thread soon reads as well, and would treat this reply as an unexpected one.
    wait_until("the last", LONG, || rig.connection.queue.lock().replies.in_flight() == 1);
    until_the_io_thread_reads(&rig.connection);
    say("\nlast\r\n");
    let all = asked.into_iter().map(|asked| callers.block_on(asked).unwrap());
    for (name, reply) in all.chain([outside.join().unwrap()]) {
        assert_eq!(reply.unwrap(), Value::BulkString(name.into()));
    }
}

/// This holds for any thread that uses the socket meanwhile.
#[test]
fn a_command_of_a_caller_that_finds_the_socket_in_use_is_written() {
    let rig = Rig::start();
    let asked = rig.connection.with_socket(|_| {
        let connection = Arc::clone(&rig.connection);
        let asked = thread::spawn(move || block_on(echoes(&connection, "in use".to_owned())));
        wait_until("the command", LONG, || rig.connection.queue.lock().replies.in_flight() == 1);
        asked
    });
    asked.unwrap().join().unwrap();
}

/// In one step, the driver finds the last reply, and that writing is no longer possible.
#[test]
fn a_reply_in_front_of_the_end_wakes_its_task() {
    let Rig { connection, mut server, io: _io, .. } = Rig::to_peer();
    let callers = callers();
    let ask = |number: usize| {
        let mine = Arc::clone(&connection);
        let asked = callers.spawn(async move { mine.request(cmd("GET").arg(number).clone()).await });
        wait_until("the command", LONG, || connection.queue.lock().replies.in_flight() == number);
        asked
    };
    let first = ask(1);
    let (mut peeked, written) = ([0; 22], "*2\r\n$3\r\nGET\r\n$1\r\n1\r\n");
    wait_until("the first command", LONG, || server.peek(&mut peeked).unwrap() == written.len());
    let second = {
        let mut socket = connection.socket.lock();
        let second = ask(2);
        // Only this end is closed, so the received data stays readable. A reset by the peer would discard it.
        let stream = Pin::new(&mut socket.as_mut().unwrap().stream);
        let closed = stream.poll_shutdown(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(closed, Poll::Ready(Ok(()))), "{closed:?}");
        server.write_all(b"+OK\r\n").unwrap();
        second
    };
    let ended = |asked: JoinHandle<RedisResult<Value>>| {
        callers.block_on(async { timeout(LONG, asked).await.unwrap().unwrap() })
    };
    // On a busy machine, a write may notice the end before the runtime notices the reply.
    match ended(first) {
        Ok(value) => assert_eq!(value, Value::Okay),
        Err(error) => assert!(error.to_string().contains("Broken pipe"), "{error}"),
    }
    assert!(ended(second).is_err());
}

/// More replies arrive together than the waker reads at once.
#[test]
fn the_callers_runtime_reads_all_that_arrives_together() {
    const TASKS: usize = 40;
    let rig = Rig::start();
    let callers = callers();
    callers.block_on(until_the_caller_reads(&rig.connection));
    rig.server.stop();
    let asked: Vec<_> = (0..TASKS)
        .map(|number| {
            let connection = Arc::clone(&rig.connection);
            callers.spawn(async move { echoes(&connection, format!("{number}:").repeat(20_000)).await })
        })
        .collect();
    wait_until("commands in flight", LONG, || rig.connection.queue.lock().replies.in_flight() == TASKS);
    rig.server.resume();
    for asked in asked {
        callers.block_on(asked).unwrap();
    }
}

/// A task that has used up its cooperative budget wakes the reader, which then reads on that task's thread.
#[test]
fn a_reader_that_is_woken_by_a_task_without_budget_reads() {
    let rig = Rig::start();
    let callers = callers();
    callers.block_on(until_the_caller_reads(&rig.connection));
    let connection = Arc::clone(&rig.connection);
    let woken = callers.spawn(async move {
        let ask = tokio::spawn({
            let connection = Arc::clone(&connection);
            async move { echoes(&connection, "asked".to_owned()).await }
        });
        while tokio::task::coop::has_budget_remaining() {
            tokio::task::coop::consume_budget().await;
        }
        let reader = connection.queue.lock().caller_waker.clone();
        reader.inspect(Waker::wake_by_ref);
        ask.await.unwrap();
    });
    callers.block_on(async { timeout(LONG, woken).await.unwrap().unwrap() });
}

/// A waker whose work reports the task that it runs in.
struct Defers(mpsc::UnboundedSender<Option<Id>>);

impl Wake for Defers {
    fn wake(self: Arc<Self>) {
        assert!(reply_batch::defer(self).is_ok());
    }
}

impl Deferred for Defers {
    fn run(self: Arc<Self>) {
        self.0.send(tokio::task::try_id()).unwrap();
    }
}

fn number(id: Id) -> u64 {
    id.to_string().parse().unwrap()
}

/// Observers of the program may run then, and may need the I/O driver. A worker that drives I/O has the number of a
/// task, too, but a lower one than the readers, which begin later.
#[test]
fn work_that_nobody_awaits_is_done_in_a_task_and_not_inside_the_io_driver() {
    let rig = Rig::start();
    let callers = callers();
    let (connection, io_thread) = (Arc::clone(&rig.connection), rig.driver.id());
    let works = callers.spawn(async move {
        let (mut count, before) = (0, number(tokio::task::id()));
        while count < 20 {
            until_the_caller_reads(&connection).await;
            let (sender, mut worked) = mpsc::unbounded_channel();
            let waker = Waker::from(Arc::new(Defers(sender)));
            let mut asking = pin!(connection.request(cmd("PING")));
            // Otherwise the reply was quicker than this thread.
            if asking.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                drop(waker);
                let task = worked.recv().await.unwrap().unwrap();
                assert!(task == io_thread || number(task) > before);
                asking.await.unwrap();
                count += 1;
            }
        }
    });
    callers.block_on(async { timeout(LONG, works).await.unwrap().unwrap() });
}
