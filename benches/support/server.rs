//! A redis-server of our own, and what it can say about its clients.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Result;

/// A server on a free port of the loopback, without persistence. Killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// If there is no `redis-server`, or it does not answer within 5 s.
    pub fn start() -> Result<Server> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!("cannot start redis-server ({error}): install it with `apt-get install redis-server`")
            })?;
        let server = Server { child, address };
        let started = Instant::now();
        while server.control().and_then(|mut control| control.call("PING")).is_err() {
            if started.elapsed() > Duration::from_secs(5) {
                return Err("redis-server does not answer".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// A connection that measures nothing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn control(&self) -> Result<Control> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Control { reader: BufReader::with_capacity(1 << 16, stream) })
    }

    /// Begins to count what clients send.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn count_commands(&self) -> Result<Counting> {
        let mut monitor = self.control()?;
        monitor.call("MONITOR")?;
        let thread = thread::spawn(move || count_until_marker(monitor));
        Ok(Counting { control: self.control()?, thread })
    }

    /// Cores and the server's version, in one line.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn machine(&self) -> Result<String> {
        let info = self.control()?.call("INFO server")?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?");
        let cores = thread::available_parallelism()?;
        Ok(format!("{cores} cores shared by server and clients, redis-server {}, loopback", version.trim()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already if that fails.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A blocking connection for a few questions.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Sends one line and returns a simple or bulk reply.
    ///
    /// # Errors
    /// An error reply, or none.
    pub fn call(&mut self, line: &str) -> Result<String> {
        self.reader.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
        let head = self.line()?;
        match head.split_at_checked(1) {
            Some(("+" | ":", rest)) => Ok(rest.to_owned()),
            Some(("$", length)) => {
                let mut text = vec![0; length.parse::<usize>()? + 2];
                std::io::Read::read_exact(&mut self.reader, &mut text)?;
                Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
            }
            _ => Err(format!("`{line}` was answered with `{head}`").into()),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

const MARKER: &str = "end-of-count";

/// Counts the commands that clients send.
///
/// `INFO commandstats` and `total_commands_processed` cannot tell: since 7.0 they include what scripts call.
/// MONITOR shows every command with the address of its client, and `lua` in its place for those inside
/// scripts. It costs the server time, so nothing else is measured while it runs, except where the lock is
/// held so long that it does not matter.
#[derive(Debug)]
pub struct Counting {
    control: Control,
    thread: JoinHandle<Result<u64>>,
}

impl Counting {
    /// Ends the count, and tells how many commands were sent since it began.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn end(mut self) -> Result<u64> {
        self.control.call(&format!("ECHO {MARKER}"))?;
        self.thread.join().map_err(|_| "the counting thread panicked")?
    }
}

fn count_until_marker(mut monitor: Control) -> Result<u64> {
    let mut count = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        if monitor.reader.read_until(b'\n', &mut line)? == 0 {
            return Err("the server closed the monitor".into());
        }
        // +1779220000.123456 [0 127.0.0.1:4711] "SET" …, or [0 lua].
        let Some(close) = line.iter().position(|byte| *byte == b']') else { continue };
        if line[..close].ends_with(b" lua") {
            continue;
        }
        if line[close..].windows(MARKER.len()).any(|part| part == MARKER.as_bytes()) {
            return Ok(count);
        }
        count += 1;
    }
}
