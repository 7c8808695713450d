//! A command under a lock: signals are passed on, and it is ended before the lease is.

use std::io;
use std::ops::RangeInclusive;
use std::process::ExitStatus;
use std::time::Duration;

use distlock::Guard;
use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::gate::Gate;
use super::group::Group;
use super::guardian::Guardian;
use super::signals::{self, Signals};
use super::terminal::Lent;
use super::until_gone;
use crate::args::{Ending, OnLost, Program};
use crate::exit::Exit;

/// The lease is looked at this often at least: timers stand still while a machine sleeps, the lease does not.
const LOOK: Duration = Duration::from_secs(1);
/// SIGKILL comes by this part of the lease before its end, within these limits: on a busy machine it is sent late, and
/// takes effect late.
const MARGIN_OF_LEASE: u32 = 20;
const MARGIN: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);

/// How a command has ended. Nothing of its process group is left.
#[derive(Debug)]
pub(super) enum Ended {
    ByItself(ExitStatus),
    /// It was ended because of the lock.
    ByUs(String),
}

/// Where a command is.
#[derive(Debug)]
enum Phase {
    Running,
    /// It was asked to end, and is killed at this time.
    Ending {
        kill_at: Instant,
        why: String,
    },
    Killed {
        why: String,
    },
}

/// Starts the command and returns when nothing of it is left.
pub(super) async fn supervise(
    guard: &Guard,
    ttl: Duration,
    program: &Program,
    ending: &Ending,
    signals: &mut Signals,
) -> Result<Ended, Exit> {
    let failed = |what: &str, error: io::Error| Exit::NotExecutable.because(&format!("{what}: {error}"));
    let gate = Gate::new().map_err(|error| failed("a pipe", error))?;
    let mut guardian = match ending.on_lost {
        OnLost::Ignore => None,
        OnLost::Signal | OnLost::Kill => {
            let started = Guardian::start(ending.kill_after, &ending.signal);
            Some(started.map_err(|error| failed("the guardian", error))?)
        }
    };
    let mut child = start(guard, program, &gate).map_err(|error| failed("the command", error))?;
    let group = child.id().map_or_else(|| Err(io::Error::other("it has ended")), Group::of);
    let group = group.map_err(|error| failed("the command", error))?;
    if let Some(guardian) = &mut guardian {
        // The gate stays closed, and what waits there ends with it.
        guardian.watch(group).await.map_err(|error| failed("the guardian", error))?;
    }
    let lent = Lent::to(group.pid());
    gate.open().map_err(|error| failed("the command", error))?;
    let margin = (ttl / MARGIN_OF_LEASE).clamp(*MARGIN.start(), *MARGIN.end());
    let mut watch = Watch { guard, margin, ending, group, gate, phase: Phase::Running };
    let status = watch.until_ended(&mut child, signals).await;
    drop(lent);
    if let Some(guardian) = guardian {
        guardian.dismiss().await;
    }
    match (status, watch.phase) {
        (Ok(status), Phase::Running) => Ok(Ended::ByItself(status)),
        (_, Phase::Ending { why, .. } | Phase::Killed { why }) => Ok(Ended::ByUs(why)),
        (Err(error), Phase::Running) => Err(Exit::NotExecutable.because(&format!("the command: {error}"))),
    }
}

/// Starts what becomes the command when the gate is opened.
fn start(guard: &Guard, program: &Program, gate: &Gate) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["begin", "--gate", &gate.number().to_string()]);
    if let Some(text) = &program.shell {
        command.arg("-c").arg(text);
    }
    command.arg("--").args(&program.command).process_group(0);
    command.env("DISTLOCK_KEY", guard.keys().collect::<Vec<_>>().join("\n"));
    command.env("DISTLOCK_TOKEN", guard.owner());
    command.env("DISTLOCK_LOST_FD", gate.number().to_string());
    match guard.fencing_token() {
        Some(token) => command.env("DISTLOCK_FENCE", token.to_string()),
        None => command.env_remove("DISTLOCK_FENCE"),
    };
    command.spawn()
}

struct Watch<'a> {
    guard: &'a Guard,
    margin: Duration,
    ending: &'a Ending,
    group: Group,
    gate: Gate,
    phase: Phase,
}

impl Watch<'_> {
    /// Returns the status of the command when nobody of its group is left.
    async fn until_ended(&mut self, child: &mut Child, signals: &mut Signals) -> io::Result<ExitStatus> {
        let group = self.group;
        let ended = async {
            let status = child.wait().await;
            // What it has left behind in its group is under the lock, too.
            until_gone(group).await;
            status
        };
        let mut ended = std::pin::pin!(ended);
        let mut lost = std::pin::pin!(self.guard.lost());
        let mut is_lost = false;
        loop {
            let next = self.look();
            tokio::select! {
                biased;
                status = &mut ended => return status,
                signal = signals.next() => self.group.signal(signal),
                error = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.gate.say_lost();
                    self.end(error.to_string());
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Does what is due, and returns when to look again.
    fn look(&mut self) -> Instant {
        let now = Instant::now();
        match &self.phase {
            Phase::Running => {
                let Some(notice) = self.notice() else { return now + LOOK };
                let remaining = self.guard.remaining();
                if remaining > notice {
                    return now + LOOK.min(remaining - notice);
                }
                self.gate.say_lost();
                let key = self.guard.key();
                self.end(format!("lock `{key}`: the lease is about to end, and cannot be renewed"));
                self.look()
            }
            Phase::Ending { kill_at, why } if now >= *kill_at => {
                let why = why.clone();
                self.kill(why);
                now + LOOK
            }
            Phase::Ending { kill_at, .. } => *kill_at,
            Phase::Killed { .. } => now + LOOK,
        }
    }

    /// How long before the end of the lease the command is asked to end. `None`: not at all.
    fn notice(&self) -> Option<Duration> {
        match self.ending.on_lost {
            OnLost::Signal => Some(self.ending.kill_after.0 + self.margin),
            OnLost::Kill => Some(self.margin),
            OnLost::Ignore => None,
        }
    }

    /// The lock is lost, or about to be.
    fn end(&mut self, why: String) {
        match (&self.phase, self.ending.on_lost) {
            (Phase::Running, OnLost::Signal) => {
                self.group.ask_to_end(signals::named(&self.ending.signal));
                self.phase = Phase::Ending { kill_at: Instant::now() + self.ending.kill_after.0, why };
            }
            (Phase::Running, OnLost::Kill) => self.kill(why),
            (_, OnLost::Ignore) | (Phase::Ending { .. } | Phase::Killed { .. }, _) => {}
        }
    }

    fn kill(&mut self, why: String) {
        self.group.signal(Signal::KILL);
        self.phase = Phase::Killed { why };
    }
}
