//! The observations of the referee: requests, grants, releases and faults. All times are those of the referee, since
//! the beginning of the run.

use std::time::Duration;

/// All observations of one run.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The ttl of each request.
    pub ttl: Duration,
    /// How much longer than its wait limit a request may take after all faults.
    pub bound: Duration,
    /// When the referee stopped listening.
    pub end: Duration,
    /// In any order.
    pub requests: Vec<Request>,
    /// In any order.
    pub faults: Vec<Fault>,
    /// Requests after the last fault that got no lock, although it was free.
    pub refused_after_calm: Vec<String>,
    /// The data that was left on the server two ttls after the last process had ended.
    pub residue: Vec<String>,
    /// Processes that ended by themselves, did not end when their input did, or gave no tokens although they promised
    /// them.
    pub misbehaved: Vec<String>,
}

/// One request for a lock.
#[derive(Debug, Clone)]
pub struct Request {
    /// The place of the process. A killed process is replaced at its place.
    pub place: usize,
    /// The number of the process, which no other process has.
    pub process: u64,
    /// The number of the key.
    pub key: usize,
    /// The wait limit.
    pub wait: Duration,
    /// When the request was written.
    pub sent: Duration,
    /// When it was answered.
    pub answered: Option<Duration>,
    /// When its process was killed, if that came before the answer.
    pub abandoned: Option<Duration>,
    /// The section, if the lock was granted.
    pub section: Option<Section>,
    /// The error text, if the request failed.
    pub failed: Option<String>,
}

/// A lock that is held from `from` to `until`.
#[derive(Debug, Clone)]
pub struct Section {
    /// The fencing token.
    pub token: Option<u64>,
    /// When the referee read the grant, which is later than the grant.
    pub from: Duration,
    /// When the section ended, which is earlier than the release.
    pub until: Duration,
    /// How it ended.
    pub end: End,
    /// The release, if it was requested.
    pub release: Option<Release>,
}

/// Why a section ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The holder had done its work.
    Done,
    /// The library reported the loss of the lock.
    Lost,
    /// The process ended.
    Killed,
}

/// A request to release.
#[derive(Debug, Clone)]
pub struct Release {
    /// When it was written.
    pub sent: Duration,
    /// When it was answered.
    pub answered: Option<Duration>,
    /// Whether the answer was that the lock was still held.
    pub confirmed: bool,
}

/// A fault that the referee caused in a process, a link or the server.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The affected process. `None`: all processes, because the server or the whole machine was disturbed.
    pub process: Option<u64>,
    /// An instant before it began.
    pub from: Duration,
    /// An instant after it ended.
    pub until: Duration,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGSTOP to a process, then SIGCONT.
    Stop,
    /// SIGKILL to a process, which is replaced.
    Kill,
    /// The link of a process is closed, or loses all bytes.
    Cut,
    /// The link of a process is slow.
    Delay,
    /// The server is stopped, or killed and restarted.
    Server,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 5] = [Self::Stop, Self::Kill, Self::Cut, Self::Delay, Self::Server];

    /// The word on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Cut => "cut",
            Self::Delay => "delay",
            Self::Server => "server",
        }
    }
}

impl Fault {
    /// Whether it touched this process between two instants.
    #[must_use]
    pub fn touches(&self, process: u64, from: Duration, until: Duration) -> bool {
        self.process.is_none_or(|touched| touched == process) && self.from <= until && from <= self.until
    }
}
