//! The web services as processes, with their locks in Redis: at SIGTERM they stop to accept, requests under way end,
//! they exit with 0, and nothing of their locks is left on the server. The tests at the end of their files run here,
//! too.

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
    /// Its requests take a second, so that some are under way when it is told to end.
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

fn response(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn ends_well(name: &str, path: &str, key: &str) {
    let server = RedisServer::start();
    let mut service = Service::start(name, &server);
    let (one, other) = (service.post(path), service.post(path));
    // One is in its section, and the other one waits for the same lock.
    eventually_blocking("a request holds the lock", || server.exists(key));
    // A server that ends closes connections of which it has read nothing. They go to its threads in turn: when each
    // thread has answered a later one, the other request was read.
    for _ in 0..2 * std::thread::available_parallelism().map_or(8, |count| count.get()) {
        assert!(response(service.post("/no-such-path")).starts_with("HTTP/1.1 404"));
    }
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

/// A crash is something else: the lock stays for its ttl, and the next process gets it then.
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
