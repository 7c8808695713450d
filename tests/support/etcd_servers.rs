//! Real `etcd` processes for one test: one member, or several that form a cluster.
//!
//! Invariant: once a function here returns, the members that were asked for answer; once the value is dropped, their
//! processes and directories are gone. They run as an unprivileged user, as etcd is run.

use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::chown, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{eventually, eventually_blocking, process};

const START_BOUND: Duration = Duration::from_secs(30);

/// `nobody` on Debian; used if the tests run as root.
const UNPRIVILEGED: u32 = 65_534;

/// The administrator of a cluster with users, and its password.
const ADMIN: &str = "root:fixture";

/// Members of one cluster; killed when dropped.
#[derive(Debug)]
pub struct EtcdServers {
    members: Vec<Member>,
    directory: TempDir,
    arguments: Vec<String>,
    with_users: bool,
    /// Options of `etcdctl` for TLS.
    papers: Option<Vec<String>>,
}

#[derive(Debug)]
struct Member {
    client_port: u16,
    peer_port: u16,
    child: Child,
}

impl EtcdServers {
    /// One member.
    #[must_use]
    pub fn one() -> Self {
        Self::start(1, &[])
    }

    /// Three members.
    #[must_use]
    pub fn three() -> Self {
        Self::start(3, &[])
    }

    /// One member that shows this certificate, and asks clients for one of this authority; `client`: one of those,
    /// without `.pem` and `.key`.
    #[must_use]
    pub fn over_tls(certificate: &str, key: &str, authority: &str, client: &str) -> Self {
        let arguments = [
            format!("--cert-file={certificate}"),
            format!("--key-file={key}"),
            format!("--trusted-ca-file={authority}"),
            "--client-cert-auth".to_owned(),
        ];
        for file in [certificate, key, authority] {
            // The member does not run as the user who has made them.
            hand_over(Path::new(file));
        }
        hand_over(Path::new(authority).parent().expect("a file lies in a directory"));
        let papers = vec![
            format!("--cacert={authority}"),
            format!("--cert={client}.pem"),
            format!("--key={client}.key"),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Self::start_with(1, &arguments, Some(papers))
    }

    /// So many members, with further arguments.
    #[must_use]
    pub fn start(count: usize, arguments: &[&str]) -> Self {
        Self::start_with(count, arguments, None)
    }

    fn start_with(count: usize, arguments: &[&str], papers: Option<Vec<String>>) -> Self {
        let begin = Instant::now();
        loop {
            match Self::try_start(count, arguments, papers.clone()) {
                Ok(servers) => return servers,
                Err(log) => {
                    let taken = log.contains("address already in use");
                    assert!(taken && begin.elapsed() < START_BOUND, "etcd did not start:\n{log}");
                }
            }
        }
    }

    fn try_start(count: usize, arguments: &[&str], papers: Option<Vec<String>>) -> Result<Self, String> {
        let directory = tempfile::Builder::new().prefix("distlock-etcd-").tempdir().unwrap();
        hand_over(directory.path());
        let ports: Vec<(u16, u16)> = (0..count).map(|_| (free_port(), free_port())).collect();
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let mut members = Vec::new();
        for (number, (client_port, peer_port)) in ports.iter().copied().enumerate() {
            let child = launch(number, &ports, directory.path(), &arguments, scheme(&papers));
            members.push(Member { client_port, peer_port, child });
        }
        let mut servers = Self { members, directory, arguments, with_users: false, papers };
        let all_answer = (0..count).all(|number| servers.answers_in_time(number));
        if all_answer { Ok(servers) } else { Err(servers.log()) }
    }

    /// `host:port` of a member, for clients.
    #[must_use]
    pub fn address(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].client_port)
    }

    /// The URL that names all members.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses: Vec<String> = (0..self.members.len()).map(|member| self.address(member)).collect();
        format!("etcd://{}", addresses.join(","))
    }

    /// How many members there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The member that leads, as the majority sees it.
    ///
    /// # Panics
    /// When none does in time.
    #[must_use]
    pub fn leader(&self) -> usize {
        let mut leader = None;
        eventually_blocking("there is a leader", || {
            leader = (0..self.count()).find(|member| self.leads(*member));
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Whether this member answers that it leads.
    #[must_use]
    pub fn leads(&self, member: usize) -> bool {
        let status = self.ctl_at(member, &["endpoint", "status", "--command-timeout=1s"]).unwrap_or_default();
        // Address, id, version, size, leads, is a learner, …
        status.split(", ").nth(4) == Some("true")
    }

    /// kill −9.
    pub fn kill9(&mut self, member: usize) {
        process::kill9(&mut self.members[member].child);
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub fn stop(&self, member: usize) {
        process::stop(&self.members[member].child);
    }

    /// SIGCONT.
    pub fn cont(&self, member: usize) {
        process::cont(&self.members[member].child);
    }

    /// Starts a member again on the same ports and data, killing it first if it still runs.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub fn restart(&mut self, member: usize) {
        self.kill9(member);
        let ports: Vec<(u16, u16)> =
            self.members.iter().map(|member| (member.client_port, member.peer_port)).collect();
        self.members[member].child =
            launch(member, &ports, self.directory.path(), &self.arguments, scheme(&self.papers));
        assert!(self.answers_in_time(member), "{}", self.log());
    }

    /// Runs `etcdctl` on the cluster; returns what it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let mut said = Err(String::new());
        eventually_blocking(&format!("etcdctl {arguments:?}"), || {
            said = (0..self.count())
                .map(|member| self.ctl_at(member, arguments))
                .find(Result::is_ok)
                .unwrap_or_else(|| Err("no member answers".to_owned()));
            said.is_ok()
        });
        said.unwrap()
    }

    /// Runs `etcdctl` on one member; returns what it prints.
    ///
    /// # Panics
    /// When it fails.
    pub fn ctl_of(&self, member: usize, arguments: &[&str]) -> String {
        self.ctl_at(member, arguments).unwrap_or_else(|error| panic!("etcdctl {arguments:?}: {error}"))
    }

    fn ctl_at(&self, member: usize, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.address(member))).args(arguments);
        if self.with_users {
            command.args(["--user", ADMIN]);
        }
        command.args(self.papers.iter().flatten());
        let output = command.output().unwrap_or_else(|error| panic!("cannot start etcdctl: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// The names of all keys that begin with `prefix`.
    #[must_use]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let said = self.ctl(&["get", "--prefix", "--keys-only", prefix]);
        said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Waits until nobody holds or awaits a lock below this root (`distlock/`).
    ///
    /// # Panics
    /// When somebody does so for too long.
    pub async fn has_no_locks(&self, root: &str) {
        let left = async || self.keys(&format!("{root}locks/")).is_empty();
        eventually("no place is left", left).await;
    }

    /// Asks for users from now on: one who may use the keys that begin with `prefix`, and nothing else.
    pub fn ask_for_users(&mut self, user: &str, password: &str, prefix: &str) {
        let login = format!("{user}:{password}");
        for command in [
            ["user", "add", ADMIN].as_slice(),
            &["user", "grant-role", "root", "root"],
            &["role", "add", "locks"],
            &["role", "grant-permission", "locks", "readwrite", "--prefix=true", prefix],
            &["user", "add", &login],
            &["user", "grant-role", user, "locks"],
            &["auth", "enable"],
        ] {
            self.ctl(command);
        }
        self.with_users = true;
    }

    fn answers_in_time(&mut self, member: usize) -> bool {
        let begin = Instant::now();
        loop {
            if self.members[member].child.try_wait().unwrap().is_some() || begin.elapsed() > START_BOUND {
                return false;
            }
            if self.is_healthy(member) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether a member has a leader and answers.
    fn is_healthy(&self, member: usize) -> bool {
        match self.papers {
            Some(_) => self.ctl_at(member, &["get", "nothing", "--command-timeout=1s"]).is_ok(),
            None => is_healthy(self.members[member].client_port),
        }
    }

    /// What the members have printed.
    #[must_use]
    pub fn log(&self) -> String {
        let log =
            |member| std::fs::read_to_string(log_file(self.directory.path(), member)).unwrap_or_default();
        (0..self.count()).map(log).collect()
    }
}

impl Drop for EtcdServers {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| process::kill9(&mut member.child));
    }
}

/// Gives a file or a directory to the unprivileged user, if we may.
fn hand_over(path: &Path) {
    if rustix::process::getuid().is_root() {
        chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
    }
}

fn log_file(directory: &Path, member: usize) -> std::path::PathBuf {
    directory.join(format!("m{member}.log"))
}

/// Of the addresses for clients.
fn scheme(papers: &Option<Vec<String>>) -> &'static str {
    if papers.is_some() { "https" } else { "http" }
}

fn launch(
    number: usize,
    ports: &[(u16, u16)],
    directory: &Path,
    arguments: &[String],
    clients: &str,
) -> Child {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let (client_port, peer_port) = ports[number];
    let cluster: Vec<String> =
        ports.iter().enumerate().map(|(it, (_, peer))| format!("m{it}={}", url(*peer))).collect();
    let log = File::create(log_file(directory, number)).unwrap();
    let mut command = Command::new("etcd");
    command
        .arg(format!("--name=m{number}"))
        .arg(format!("--data-dir={}", directory.join(format!("m{number}")).display()))
        .arg(format!("--listen-client-urls={clients}://127.0.0.1:{client_port}"))
        .arg(format!("--advertise-client-urls={clients}://127.0.0.1:{client_port}"))
        .arg(format!("--listen-peer-urls={}", url(peer_port)))
        .arg(format!("--initial-advertise-peer-urls={}", url(peer_port)))
        .arg(format!("--initial-cluster={}", cluster.join(",")));
    if ports.len() == 1 {
        // It is elected at once.
        command.args(["--heartbeat-interval=20", "--election-timeout=200"]);
    }
    command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    if rustix::process::getuid().is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    command.spawn().unwrap_or_else(|error| {
        panic!("cannot start `etcd` ({error}): install it with `apt-get install etcd-server etcd-client`")
    })
}

/// Whether a member has a leader and answers.
fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}

/// A port that is free now, below the range the kernel gives to outgoing connections.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 8_000;
    const COUNT: u16 = 12_000;
    let start = u16::try_from(u32::from(COUNT) * (std::process::id() % 97) / 97).unwrap();
    loop {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_keeps_its_data_over_a_restart() {
        let mut etcd = EtcdServers::one();
        etcd.ctl(&["put", "a/k", "v"]);
        etcd.restart(0);
        assert_eq!(etcd.keys("a/"), ["a/k"]);
        assert!(etcd.leads(0));
    }

    #[test]
    fn three_members_elect_another_leader() {
        let etcd = EtcdServers::three();
        let first = etcd.leader();
        etcd.stop(first);
        eventually_blocking("another one leads", || {
            (0..3).any(|member| member != first && etcd.leads(member))
        });
        etcd.cont(first);
    }
}
