//! A redis-server of our own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use distlock_fixtures::{RedisServer, ServerOptions};

use crate::Result;

/// A server on a free port of the loopback, without persistence. Killed when dropped.
#[derive(Debug)]
pub struct Server(RedisServer);

impl Server {
    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not answer.
    #[must_use]
    pub fn start() -> Server {
        Server::with(RedisServer::options())
    }

    pub(crate) fn with(options: ServerOptions) -> Server {
        Server(options.directive("loglevel warning").start())
    }

    /// The port for the other nodes of its cluster.
    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.0.bus_port()
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.0.port()))
    }

    /// Stops the process: connections stay, answers do not come.
    pub fn freeze(&self) {
        self.0.stop();
    }

    /// Lets the process go on, and waits until it answers.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn thaw(&self) -> Result<()> {
        self.0.cont();
        self.control()?.call("PING").map(drop)
    }

    /// A connection that measures nothing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn control(&self) -> Result<Control> {
        let stream = TcpStream::connect(self.address())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Control { reader: BufReader::with_capacity(1 << 16, stream) })
    }

    /// CPU time that the server has used so far.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn cpu_time(&self) -> Result<Duration> {
        let info = self.control()?.call("INFO cpu")?;
        let seconds = |name: &str| -> Result<f64> {
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            Ok(line.ok_or_else(|| format!("INFO does not tell {name}"))?.trim().parse()?)
        };
        Ok(Duration::from_secs_f64(seconds("used_cpu_user")? + seconds("used_cpu_sys")?))
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
