//! What the referee saw: requests, grants, releases and faults. All times are its own, since the beginning of the run.

use std::time::Duration;

/// Everything that one run showed.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The lease that each request asked for.
    pub ttl: Duration,
    /// How much longer than its wait limit a request may take after all faults.
    pub bound: Duration,
    /// When the referee stopped listening.
    pub end: Duration,
    /// In any order.
    pub requests: Vec<Request>,
    /// In any order.
    pub faults: Vec<Fault>,
    /// Requests after the last fault that got no lock, although nobody held it.
    pub refused_after_calm: Vec<String>,
    /// What was left on the server two ttls after the last process had ended.
    pub residue: Vec<String>,
    /// Processes that ended by themselves, or did not end when their input did.
    pub misbehaved: Vec<String>,
}

/// One request for a lock.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which place among the processes; a process that was killed is replaced at its place.
    pub place: usize,
    /// The process, which is never used for another one.
    pub process: u64,
    /// Which key.
    pub key: usize,
    /// The wait limit.
    pub wait: Duration,
    /// When the request was written.
    pub sent: Duration,
    /// When it was answered.
    pub answered: Option<Duration>,
    /// When its process was killed, if that came before the answer.
    pub abandoned: Option<Duration>,
    /// What followed, if the lock was granted.
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
    /// The holder was told that the lock is lost.
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

/// Something that the referee did to a process, a link or the server.
#[derive(Debug, Clone)]
pub struct Fault {
    /// What it was.
    pub kind: FaultKind,
    /// Whose; `None`: everybody's, because the server or the whole machine was disturbed.
    pub process: Option<u64>,
    /// Before it began.
    pub from: Duration,
    /// After it ended.
    pub until: Duration,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// SIGSTOP to a process, then SIGCONT.
    Stop,
    /// SIGKILL to a process, which is replaced.
    Kill,
    /// The link of a process is closed, or loses everything.
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
