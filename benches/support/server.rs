//! A redis-server of our own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

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
        Server::start_with(|| Ok(Vec::new()))
    }

    /// The same with further arguments. A port that was free a moment ago may be taken by now, one among the
    /// arguments too: then others are tried.
    ///
    /// # Errors
    /// If there is no `redis-server`, or it does not answer within 5 s.
    pub fn start_with(arguments: impl Fn() -> Result<Vec<String>>) -> Result<Server> {
        for _ in 0..10 {
            let mut server = Server::spawn(free_port()?, &arguments()?)?;
            if server.answers()? {
                return Ok(server);
            }
        }
        Err("redis-server ends as soon as it is started: does `redis-server --version` work?".into())
    }

    fn spawn(port: u16, arguments: &[String]) -> Result<Server> {
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            // Somebody else's dump in this folder would be loaded.
            .args(["--dbfilename", &format!("distlock-bench-{port}.rdb")])
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!("cannot start redis-server ({error}): install it with `apt-get install redis-server`")
            })?;
        Ok(Server { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) })
    }

    /// Whether it answers rather than ends; whoever answers after its end is another server.
    fn answers(&mut self) -> Result<bool> {
        let started = Instant::now();
        loop {
            let answered = self.control().and_then(|mut control| control.call("PING"));
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            if answered.is_ok() {
                return Ok(true);
            }
            if started.elapsed() > Duration::from_secs(5) {
                return Err("redis-server does not answer".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the process: connections stay, answers do not come.
    ///
    /// # Errors
    /// If it has ended.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets the process go on, and waits until it answers.
    ///
    /// # Errors
    /// If it has ended or does not answer.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)?;
        self.control()?.call("PING").map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).ok_or("a process without a number")?;
        Ok(kill_process(pid, signal)?)
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

/// A port of the loopback that nobody listens on now.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
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

    /// One line that the server sends without being asked.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }
}
