//! The load of one process, one lock and one waiter on a real server. `docs/scale.md` shows the figures.
//!
//! `cargo test --release -p distlock --lib redis::growth_tests -- --ignored --nocapture --test-threads 1` measures, and
//! prints one JSON object for each figure.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use redis::{Cmd, Connection, Pipeline};

use super::command::{ScriptRef, Wire};
use super::names::Names;
use super::scripts::SCRIPTS;
use super::test_cluster::{Cluster, MASTERS};
use super::test_sentinels::{Guarded, Sentinel, cpu};
use super::test_server::{LONG, Rig, TestServer, let_pass, wait_until};
use crate::backend::{AcquireMode, LockKind, Token, Tuning, op};

/// The number of commands that are sent together if only their execution matters.
const TOGETHER: usize = 1_000;
const TTL: Duration = Duration::from_secs(3_600);

fn connections_of(server: &TestServer, client: &str) -> usize {
    server.client_ids(|line| line.contains(&format!(" name={client} "))).len()
}

/// Connections that carry SENTINEL commands or news. The sentinels' own have a name that begins with theirs.
fn guests(sentinel: &Sentinel) -> usize {
    match sentinel.run(&["CLIENT", "LIST"]) {
        Some(redis::Value::BulkString(list)) => {
            let list = String::from_utf8_lossy(&list).into_owned();
            let is_ours = |line: &&str| line.contains(" cmd=sentinel") || line.contains(" sub=2 ");
            list.lines().filter(is_ours).count()
        }
        _ => 0,
    }
}

#[test]
fn a_manager_has_two_connections_to_each_server_and_two_to_each_sentinel() {
    let server = TestServer::start(&[]);
    let _rig = Rig::up(&server, "a");
    wait_until("both connections have their name", LONG, || connections_of(&server, "a") == 2);

    let cluster = Cluster::start();
    let _rig = cluster.start_rig("a");
    for server in &cluster.servers[..MASTERS] {
        wait_until("each master is connected to and listened to", LONG, || connections_of(server, "a") == 2);
    }

    let guarded = Guarded::start();
    let _rig = guarded.rig("a");
    for sentinel in &guarded.sentinels {
        wait_until("each sentinel is asked and listened to", LONG, || guests(sentinel) == 2);
    }
}

/// A wire with a client's name as long as those of managers.
fn wire(client: usize) -> Wire {
    // Places last as long as the measurement, and no gap takes the lock from the next in the queue.
    let tuning = Tuning { queue_entry_ttl: TTL, poll_gap: Duration::ZERO, ..Tuning::default() };
    Wire::new(Names::new(String::new()), format!("{client:024x}"), &tuning)
}

fn enter(client: usize, key: &str, mode: AcquireMode) -> Cmd {
    let op = op::Acquire {
        token: Token(100),
        kind: LockKind::Exclusive,
        ttl: TTL,
        claim: Duration::from_secs(3),
        mode,
        fences: 0,
    };
    wire(client).enter(ScriptRef::Hash, key, &op)
}

fn take(client: usize, key: &str) -> Cmd {
    wire(client).set(key, &op::TryAcquire { token: Token(100), ttl: TTL })
}

fn leave(client: usize, key: &str) -> Cmd {
    let op = op::Release::new(Token(100), op::Ends::ExclusiveLease);
    wire(client).leave(ScriptRef::Hash, key, &op, None)
}

fn renew(client: usize, key: &str) -> Cmd {
    wire(client).renew(
        ScriptRef::Hash,
        key,
        &op::Renew { token: Token(100), kind: LockKind::Exclusive, ttl: TTL, last: false },
    )
}

/// A key as long as usual ones.
fn key(number: usize) -> String {
    format!("order:{number:08}")
}

/// A server, and one connection to it.
struct Bench {
    server: TestServer,
    connection: Connection,
}

impl Bench {
    fn start() -> Bench {
        let server = TestServer::start(&[]);
        let mut bench = Bench { connection: server.connection(), server };
        bench.together(SCRIPTS.all().iter().map(|script| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.code);
            load
        }));
        bench
    }

    /// Sends all of them, many at a time.
    fn together(&mut self, commands: impl Iterator<Item = Cmd>) {
        let mut commands = commands.peekable();
        while commands.peek().is_some() {
            let mut pipeline = Pipeline::new();
            commands.by_ref().take(TOGETHER).for_each(|command| {
                pipeline.add_command(command).ignore();
            });
            let _: () = pipeline.query(&mut self.connection).unwrap();
        }
    }

    /// Sends one after the other, each when the one before was answered.
    fn one_by_one(&mut self, commands: impl Iterator<Item = Cmd>) {
        for command in commands {
            let _: redis::Value = command.query(&mut self.connection).unwrap();
        }
    }

    /// From now on, a client is subscribed to these channels.
    fn listen(&self, channels: impl Iterator<Item = String>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server.port)).unwrap();
        let words: Vec<String> = channels.collect();
        for some in words.chunks(TOGETHER) {
            write!(stream, "SUBSCRIBE {}\r\n", some.join(" ")).unwrap();
        }
        let listens = || self.server.info("pubsub_channels") == words.len().to_string();
        // Reads until the server is gone.
        thread::spawn(move || drop(std::io::copy(&mut stream, &mut std::io::sink())));
        wait_until("all channels are listened to", LONG, listens);
    }

    fn memory(&self) -> f64 {
        self.server.info("used_memory").parse().unwrap()
    }

    /// CPU time of the server, in microseconds.
    fn cpu(&self) -> f64 {
        cpu(&self.server)
    }

    fn print_memory(&self, what: &str, before: f64, count: usize) {
        let each = (self.memory() - before) / count as f64;
        println!("{{\"memory\":\"{what}\",\"count\":{count},\"bytes_each\":{each:.1}}}");
    }

    /// `commands` returns `count` commands. The first time they are sent together, the second time one by one.
    fn print_cpu<I: Iterator<Item = Cmd>>(
        &mut self,
        what: &str,
        count: usize,
        mut commands: impl FnMut() -> I,
    ) {
        let start = self.cpu();
        self.together(commands());
        let middle = self.cpu();
        self.one_by_one(commands());
        let end = self.cpu();
        let [together, alone] = [middle - start, end - middle].map(|cpu| cpu / count as f64);
        println!(
            "{{\"cpu\":\"{what}\",\"commands\":{count},\"us_each_pipelined\":{together:.2},\"us_each_alone\":{alone:.2}}}"
        );
    }
}

#[test]
#[ignore = "a measurement, see the module"]
fn memory_of_locks_queues_and_connections() {
    for count in [1_000, 10_000, 100_000] {
        let mut bench = Bench::start();
        let before = bench.memory();
        bench.together((0..count).map(|number| take(1, &key(number))));
        bench.print_memory("a held lock", before, count);
    }
    for count in [1_000, 10_000] {
        let mut bench = Bench::start();
        bench.together([take(0, "k"), enter(0, "other", AcquireMode::Wait)].into_iter());
        let before = bench.memory();
        bench.together((1..=count).map(|client| enter(client, "k", AcquireMode::Wait)));
        bench.print_memory("a waiter in the queue of one key", before, count);
    }
    let mut bench = Bench::start();
    bench.together((0..10_000).map(|number| take(0, &key(number))));
    bench.together([enter(0, "other", AcquireMode::Wait)].into_iter());
    let before = bench.memory();
    bench.together((0..10_000).map(|number| enter(1, &key(number), AcquireMode::Wait)));
    bench.print_memory("the queue of a key with one waiter", before, 10_000);

    for count in [100, 1_000] {
        let bench = Bench::start();
        let before = bench.memory();
        let connect = |_| {
            let mut stream = TcpStream::connect(("127.0.0.1", bench.server.port)).unwrap();
            stream.write_all(b"PING\r\n").unwrap();
            stream.read_exact(&mut [0; 7]).unwrap();
            stream
        };
        let _open: Vec<TcpStream> = (0..count).map(connect).collect();
        bench.print_memory("a connection that was just used", before, count);
        // The server takes the buffers of idle connections back after a while.
        let_pass(Duration::from_secs(15));
        bench.print_memory("an idle connection", before, count);
    }
}

#[test]
#[ignore = "a measurement, see the module"]
fn cpu_of_commands() {
    const COUNT: usize = 20_000;
    let mut bench = Bench::start();
    bench.print_cpu("PING", COUNT, || (0..COUNT).map(|_| redis::cmd("PING")));
    let section = |number: usize| [take(1, &key(number)), leave(1, &key(number))];
    bench.print_cpu("acquire and release, two commands", 2 * COUNT, || (0..COUNT).flat_map(section));
    bench.together((0..COUNT).map(|number| take(1, &key(number))));
    bench.print_cpu("renew", COUNT, || (0..COUNT).map(|number| renew(1, &key(number))));
    for waiters in [10, 100, 1_000, 10_000] {
        let mut bench = Bench::start();
        bench.together(std::iter::once(take(0, "k")));
        bench.together((1..=waiters).map(|client| enter(client, "k", AcquireMode::Wait)));
        let heartbeat = move |number: usize| enter(1 + number % waiters, "k", AcquireMode::WaitAgain);
        let what = format!("heartbeat in a queue of {waiters}");
        bench.print_cpu(&what, COUNT, || (0..COUNT).map(heartbeat));
    }
    let mut bench = Bench::start();
    bench.listen((0..=2 * COUNT).map(|client| wire(client).channel()));
    bench.together(std::iter::once(take(0, "k")));
    bench.together((1..=2 * COUNT).map(|client| enter(client, "k", AcquireMode::Wait)));
    let mut holders = (0..2 * COUNT).collect::<Vec<_>>().into_iter();
    bench.print_cpu("release that hands the lock to a waiter", COUNT, || {
        let some: Vec<usize> = holders.by_ref().take(COUNT).collect();
        some.into_iter().map(|client| leave(client, "k"))
    });
}

#[test]
#[ignore = "a measurement, see the module"]
fn an_idle_manager_and_its_sentinels() {
    const SECONDS: u64 = 60;
    let server = TestServer::start(&[]);
    let _rig = Rig::up(&server, "a");
    let commands = || server.info("total_commands_processed").parse::<f64>().unwrap();
    let before = commands();
    let_pass(Duration::from_secs(SECONDS));
    // One of them is the question itself.
    let each = (commands() - before - 1.0) / SECONDS as f64;
    println!("{{\"idle_manager\":\"one server\",\"commands_per_s\":{each:.3}}}");

    // The questions that sentinels ask each other, and that managers ask sentinels.
    const MANAGERS: usize = 40;
    let guarded = Guarded::start();
    let commands = |sentinel: &Sentinel| sentinel.commands();
    let of_a_minute = || {
        let before: Vec<f64> = guarded.sentinels.iter().map(commands).collect();
        let_pass(Duration::from_secs(SECONDS));
        let after = guarded.sentinels.iter().map(commands);
        after.zip(before).map(|(after, before)| after - before).collect::<Vec<f64>>()
    };
    let alone = of_a_minute();
    let _rigs: Vec<Rig> = (0..MANAGERS).map(|number| guarded.rig(&format!("m{number}"))).collect();
    // The pauses grow for less than this.
    let_pass(Duration::from_secs(40));
    for (with, alone) in of_a_minute().into_iter().zip(alone) {
        let each = (with - alone) / (SECONDS as f64 * MANAGERS as f64);
        println!("{{\"idle_manager\":\"a sentinel\",\"managers\":{MANAGERS},\"commands_per_s\":{each:.3}}}");
    }
    let sentinel = &guarded.sentinels[0];
    let mut connection = sentinel.connection();
    let before = sentinel.cpu();
    for _ in 0..10_000 {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg("mymaster").ignore();
        pipeline.cmd("SENTINEL").arg("MASTER").arg("mymaster").ignore();
        let _: () = pipeline.query(&mut connection).unwrap();
    }
    println!(
        "{{\"cpu\":\"a round of questions to a sentinel\",\"us_each_alone\":{:.2}}}",
        (sentinel.cpu() - before) / 1e4
    );
}
