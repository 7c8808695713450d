//! The web services as processes, with their locks in Redis: at SIGTERM they accept no more requests, those that run
//! end, they exit with 0, and nothing of their locks is left on the server. The tests at the end of their files run
//! here, too.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code)]
#[path = "../actix_service/main.rs"]
mod actix_service;
#[allow(dead_code)]
#[path = "../axum_service/main.rs"]
mod axum_service;
mod example;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
};

use distlock_fixtures::{RedisServer, eventually_blocking, signals};

/// A service that runs; killed when dropped.
struct Service {
    process: Child,
    address: SocketAddr,
    output: BufReader<ChildStdout>,
}

impl Service {
    /// Its requests take a second, so that some run at SIGTERM.
    fn start(name: &str, server: &RedisServer) -> Self {
        let mut command = Command::new(example::path(name));
        command.args(["--url", &server.url(), "--listen", "127.0.0.1:0", "--work", "1000"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().parse().expect(&line);
        Service { process, address, output }
    }

    /// Sends a request, whose response is read later.
    fn post(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(distlock_fixtures::BOUND)).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Whether SIGTERM no longer ends the process at once.
fn catches_term(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    // The lowest bit is signal 1, and SIGTERM is 15.
    u64::from_str_radix(caught.trim(), 16).unwrap() >> 14 & 1 == 1
}

/// Whether the peer, on this machine, has read everything that was sent.
fn is_read(stream: &TcpStream) -> bool {
    let (here, there) = (stream.local_addr().unwrap().port(), stream.peer_addr().unwrap().port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // Local address, remote address, state, bytes to be acknowledged and bytes to be read (all hexadecimal).
    let bytes = |local: u16, remote: u16| {
        table.lines().find_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let is_it = fields.next()?.ends_with(&format!(":{local:04X}"))
                && fields.next()?.ends_with(&format!(":{remote:04X}"));
            is_it.then(|| fields.nth(1)?.split_once(':')).flatten()
        })
    };
    let nothing = |bytes: &str| bytes == "00000000";
    bytes(here, there).is_some_and(|(sent, _)| nothing(sent))
        && bytes(there, here).is_some_and(|(_, received)| nothing(received))
}

fn response(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn ends_well(name: &str, path: &str, key: &str) {
    let server = RedisServer::start();
    let mut service = Service::start(name, &server);
    let (one, other) = (service.post(path), service.post(path));
    // One request is in its section, and the other one waits for the same lock.
    eventually_blocking("a request holds the lock", || server.exists(key));
    // A server that shuts down closes connections from which it has read nothing.
    eventually_blocking("both requests are read", || [&one, &other].iter().all(|stream| is_read(stream)));
    // The threads of the server may serve requests before the main thread handles the signal.
    eventually_blocking("it catches the signal", || catches_term(&service.process));
    signals::term(&service.process);
    eventually_blocking("it accepts nobody any more", || TcpStream::connect(service.address).is_err());
    for stream in [one, other] {
        let response = response(stream);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    eventually_blocking("it has ended", || service.process.try_wait().unwrap().is_some());
    let mut said = String::new();
    service.output.read_to_string(&mut said).unwrap();
    assert!(service.process.wait().unwrap().success(), "{said}");
    assert!(said.contains("lost: 0"), "{said}");
    let left = server.keys();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn axum_ends_its_requests_and_leaves_no_lock() {
    ends_well("axum_service", "/accounts/7/points/10", "account:7");
}

#[test]
fn actix_ends_its_requests_and_leaves_no_lock() {
    ends_well("actix_service", "/items/7/buy", "item:7");
}

/// After a crash the lock stays until its ttl is over, and then the next process gets it.
#[test]
fn a_killed_service_holds_others_up_for_a_ttl_at_most() {
    let server = RedisServer::start();
    let mut service = Service::start("axum_service", &server);
    let stream = service.post("/accounts/7/points/10");
    eventually_blocking("a request holds the lock", || server.exists("account:7"));
    signals::kill9(&mut service.process);
    assert_eq!(response(stream), "");
    let left: i64 = server.run_words(&["PTTL", "account:7"]);
    assert!((1..=10_000).contains(&left), "{left}");
}
