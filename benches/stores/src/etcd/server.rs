//! A separate etcd.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::Result;
use crate::cpu::cpu_time_of;

/// One member on free ports of the loopback, with its data on the disk. It is killed when this is dropped.
pub(crate) struct EtcdServer {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl EtcdServer {
    pub(crate) fn start() -> Result<EtcdServer> {
        let directory = tempfile::tempdir()?;
        let free = || Ok::<u16, std::io::Error>(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let (port, peer) = (free()?, free()?);
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let child = Command::new("etcd")
            .arg(format!("--data-dir={}", directory.path().join("data").display()))
            .arg(format!("--listen-client-urls={}", url(port)))
            .arg(format!("--advertise-client-urls={}", url(port)))
            .arg(format!("--listen-peer-urls={}", url(peer)))
            .arg(format!("--initial-advertise-peer-urls={}", url(peer)))
            .arg(format!("--initial-cluster=default={}", url(peer)))
            .args(["--log-level=error", "--quota-backend-bytes=1073741824"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start etcd ({error}): `apt-get install etcd-server`"))?;
        let server = EtcdServer { child, port, _directory: directory };
        let start = Instant::now();
        while !server.get("/health").is_ok_and(|text| text.contains("\"health\":\"true\"")) {
            if start.elapsed() > Duration::from_secs(15) {
                return Err("etcd does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The number of requests that it has received: calls, and messages on streams (keep-alives).
    pub(crate) fn requests(&self) -> Result<u64> {
        let text = self.get("/metrics")?;
        let counts = text
            .lines()
            .filter(|line| line.starts_with("grpc_server_msg_received_total"))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Ok(counts.sum::<f64>() as u64)
    }

    /// The CPU time of the server.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(self.child.id())
    }

    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
