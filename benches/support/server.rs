//! A separate redis-server.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use distlock_fixtures::{RedisServer, ServerOptions};

use crate::Result;

/// A server on a free port of the loopback, without persistence. It is killed when this is dropped.
#[derive(Debug)]
pub struct Server(RedisServer);

impl Server {
    /// Starts it, and waits until it replies.
    ///
    /// # Panics
    /// If there is no `redis-server`, or it does not reply.
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

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// The id of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.0.port()))
    }

    /// Stops the process: connections stay open, and no replies arrive.
    pub fn freeze(&self) {
        self.0.stop();
    }

    /// Resumes the process, and waits until it replies.
    ///
    /// # Errors
    /// If it does not reply.
    pub fn thaw(&self) -> Result<()> {
        self.0.cont();
        self.control()?.call("PING").map(drop)
    }

    /// A connection outside of the measurement.
    ///
    /// # Errors
    /// If it cannot connect.
    pub fn control(&self) -> Result<Control> {
        let stream = TcpStream::connect(self.address())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Control { reader: BufReader::with_capacity(1 << 16, stream) })
    }

    /// The CPU time of the server so far.
    ///
    /// # Errors
    /// If the server does not reply.
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
    /// If the server does not reply.
    pub fn machine(&self) -> Result<String> {
        let info = self.control()?.call("INFO server")?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?");
        let cores = thread::available_parallelism()?;
        Ok(format!("{cores} cores shared by server and clients, redis-server {}, loopback", version.trim()))
    }
}

/// A blocking connection for a few commands.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Sends one line, and returns a simple or bulk reply.
    ///
    /// # Errors
    /// An error reply, or no reply.
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

    /// Reads one line that the server sends without a command.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }
}
