//! A command under a lock: it gets the signals of `distlock run`, and it is ended before the lease ends.

use std::io;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use distlock::{Guard, LockError, LockManager};
use rustix::process::{Signal, kill_current_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::Instant;

use super::gate::Gate;
use super::group::{Group, Killed, TO_DIE, last_words};
use super::guardian::Guardian;
use super::plan::{DueSignal, Plan};
use super::signals::{self, Signals};
use super::terminal::Terminal;
use super::{Job, clock, own_program, until_gone};
use crate::args::{Ending, OnLost};
use crate::exit::Exit;
use crate::out::complain;

/// The longest pause between two checks of the lease. Timers stop while a machine sleeps, but the lease does not.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// SIGKILL is sent this fraction of the lease before its end, within these limits, because on a busy machine it is sent
/// late and takes effect late.
const MARGIN_OF_LEASE: u32 = 20;
const MARGIN: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);
/// The guardian is notified of a lease only if it lasts longer by at least this. (Two readings of the same lease differ
/// a little.)
const LONGER: Duration = Duration::from_millis(10);

/// How a command has ended. No process of its group is left.
#[derive(Debug)]
pub(super) enum CommandEnd {
    ByItself(ExitStatus),
    /// `distlock` ended it because of the lock.
    ByUs(String),
}

/// Starts the command, and returns when none of its processes is left.
pub(super) async fn supervise(
    manager: &LockManager,
    guard: &Guard,
    job: &Job<'_>,
    signals: &mut Signals,
) -> Result<CommandEnd, Exit> {
    let failed = |what: &str, error: io::Error| Exit::NotExecutable.because(&format!("{what}: {error}"));
    let guardian = match job.ending.on_lost {
        OnLost::Ignore => None,
        OnLost::Signal | OnLost::Kill => {
            Some(Guardian::start(job.ending).map_err(|error| failed("the guardian", error))?)
        }
    };
    let gate = Gate::new().map_err(|error| failed("a pipe", error))?;
    let children = unix::signal(SignalKind::child()).map_err(|error| failed("signals", error))?;
    let mut child = start(guard, job, &gate).map_err(|error| failed("the command", error))?;
    let group = child.id().map_or_else(|| Err(io::Error::other("it has ended")), Group::of);
    let group = group.map_err(|error| failed("the command", error))?;
    let margin = (job.ttl / MARGIN_OF_LEASE).clamp(*MARGIN.start(), *MARGIN.end());
    let mut watch = Watch {
        manager,
        guard,
        ending: job.ending,
        margin,
        group,
        gate,
        guardian,
        plan: plan(job.ending),
        told: Duration::ZERO,
        why: None,
        killed: None,
        terminal: Terminal::open(),
        stopped: None,
    };
    // The gate stays closed until the guardian knows the group and the lease. If this fails, the process that waits at
    // the gate ends with it.
    watch.tell_guardian().map_err(|error| failed("the guardian", error))?;
    if let Err(error) = may_begin(guard) {
        if let Some(guardian) = watch.guardian.take() {
            // It has nothing to end: the process at the gate ends with the gate.
            guardian.dismiss().await;
        }
        return Err(Exit::told(&error));
    }
    if let Some(terminal) = &watch.terminal {
        terminal.lend_if_alone(group);
    }
    watch.gate.open().map_err(|error| failed("the command", error))?;
    let status = watch.until_ended(&mut child, signals, children).await;
    watch.finish(status).await.map_err(|error| failed("the command", error))
}

/// The lock may have been lost while the processes were started. Whatever `--on-lost` is, a command must not begin
/// without its lock.
fn may_begin(guard: &Guard) -> Result<(), LockError> {
    guard.check()
}

/// Continues the process group of this process.
fn wake_own_group() {
    let _: rustix::io::Result<()> = kill_current_process_group(Signal::CONT);
}

/// `None`: the command continues after a loss.
fn plan(ending: &Ending) -> Option<Plan> {
    match ending.on_lost {
        OnLost::Signal => Some(Plan::new(Some(ending.kill_after.0))),
        OnLost::Kill => Some(Plan::new(None)),
        OnLost::Ignore => None,
    }
}

/// Starts the process that becomes the command when the gate is opened.
fn start(guard: &Guard, job: &Job<'_>, gate: &Gate) -> io::Result<Child> {
    let mut command = Command::new(own_program()?);
    command.arg0("distlock").args(["begin", "--gate", &gate.number().to_string()]);
    if let Some(text) = &job.program.shell {
        command.arg("-c").arg(text);
    }
    command.arg("--").args(&job.program.command).process_group(0);
    command.env("DISTLOCK_KEY", guard.keys().collect::<Vec<_>>().join("\n"));
    command.env("DISTLOCK_TOKEN", guard.owner());
    // The ticket is used. A `distlock run` inside the command has its own locks.
    command.env_remove("DISTLOCK_TICKET");
    command.env("DISTLOCK_LOST_FD", gate.number().to_string());
    match guard.fencing_token() {
        Some(token) => command.env("DISTLOCK_FENCE", token.to_string()),
        None => command.env_remove("DISTLOCK_FENCE"),
    };
    // The URL may contain a password, and a command may print its environment into logs.
    match job.url {
        Some(url) => command.env("DISTLOCK_URL", url).env_remove("DISTLOCK_URL_FILE"),
        None => command.env_remove("DISTLOCK_URL"),
    };
    command.spawn()
}

struct Watch<'a> {
    manager: &'a LockManager,
    guard: &'a Guard,
    ending: &'a Ending,
    margin: Duration,
    group: Group,
    gate: Gate,
    guardian: Option<Guardian>,
    plan: Option<Plan>,
    /// The last time for the kill that was sent to the guardian.
    told: Duration,
    /// The reason why the command was asked to end, or was killed.
    why: Option<String>,
    killed: Option<Killed>,
    terminal: Option<Terminal>,
    /// When this process stopped the command because it was stopped itself.
    stopped: Option<Instant>,
}

impl Watch<'_> {
    /// Returns the status of the command when no process of its group is left.
    async fn until_ended(
        &mut self,
        child: &mut Child,
        signals: &mut Signals,
        mut children: unix::Signal,
    ) -> io::Result<ExitStatus> {
        let group = self.group;
        let ended = async {
            let status = child.wait().await;
            // The other processes of the group are protected by the lock, too.
            until_gone(group).await;
            status
        };
        let mut ended = std::pin::pin!(ended);
        let mut lost = std::pin::pin!(self.guard.lost());
        let mut is_lost = false;
        let mut events = self.manager.events();
        let mut has_events = true;
        loop {
            let next = self.look();
            tokio::select! {
                biased;
                status = &mut ended => return status,
                error = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.lose(&error);
                }
                signal = signals.next() => self.receive(signal),
                _ = children.recv() => self.look_whether_it_is_stopped(),
                // It may be a renewal, which the guardian needs.
                event = events.next(), if has_events => has_events = event.is_some(),
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// The command has ended.
    async fn finish(mut self, status: io::Result<ExitStatus>) -> io::Result<CommandEnd> {
        let mut was_lent = false;
        if let Some(terminal) = &self.terminal {
            was_lent = terminal.is_lent_to(self.group);
            terminal.take_back(self.group);
            if was_lent {
                // Another process of the job may have been stopped meanwhile because it read from the terminal.
                wake_own_group();
            }
        }
        if let Some(guardian) = self.guardian.take()
            && guardian.dismiss().await
        {
            let key = self.guard.key();
            self.why.get_or_insert_with(|| {
                format!("lock `{key}`: the lease was about to end, and `distlock run` was paused")
            });
        }
        if let Some(why) = self.why {
            return Ok(CommandEnd::ByUs(format!("{why}; {}", last_words(self.killed.as_ref()))));
        }
        let status = status?;
        if let Some(signal) = status.signal().and_then(Signal::from_named_raw)
            && was_lent
            && [Signal::INT, Signal::QUIT].contains(&signal)
        {
            // A user typed this signal for the whole job. Without `distlock run`, all its processes would have got it.
            let _: rustix::io::Result<()> = kill_current_process_group(signal);
        }
        Ok(CommandEnd::ByItself(status))
    }

    /// Sends the data that the guardian needs before the command begins.
    fn tell_guardian(&mut self) -> io::Result<()> {
        let Some(guardian) = &self.guardian else { return Ok(()) };
        guardian.watch(self.group)?;
        self.told = clock::now() + self.guard.remaining().saturating_sub(self.margin / 2);
        guardian.renewed(self.told)
    }

    /// Executes the steps that are due, and returns when to check again.
    fn look(&mut self) -> Instant {
        if self.stopped.is_some_and(|since| since.elapsed() >= CHECK_INTERVAL) {
            self.go_on();
        }
        // Read before the lease, so the remaining time is never counted from a later moment.
        let now = clock::now();
        let remaining = self.guard.remaining();
        let Some(plan) = &mut self.plan else { return Instant::now() + CHECK_INTERVAL };
        // A lost lease has no remaining time, and `lost` reports the reason. The plan has the end of an expired lease.
        if !remaining.is_zero() {
            plan.renewed((now + remaining).saturating_sub(self.margin));
            // The guardian acts a little later, so it acts only if this process does not.
            let kill_at = (now + remaining).saturating_sub(self.margin / 2);
            if kill_at > self.told + LONGER {
                self.told = kill_at;
                if let Some(guardian) = &self.guardian {
                    // A guardian that has died, or does not read, is ignored: this process still ends the command.
                    drop(guardian.renewed(kill_at));
                }
            }
        }
        while let Some(step) = self.plan.as_mut().and_then(|plan| plan.due(now)) {
            if self.why.is_none() {
                let key = self.guard.key();
                self.why = Some(format!("lock `{key}`: the lease is about to end, and cannot be renewed"));
                self.gate.say_lost();
            }
            self.carry_out(step);
        }
        if let Some(killed) = &mut self.killed {
            if killed.finds_survivor(now) {
                complain(
                    "a process of the command runs as another user and cannot be ended: it may outlive the lease",
                );
            }
            return Instant::now() + TO_DIE;
        }
        let next = self.plan.as_ref().and_then(Plan::next);
        Instant::now() + next.map_or(CHECK_INTERVAL, |next| CHECK_INTERVAL.min(next.saturating_sub(now)))
    }

    /// The lock is no longer held.
    fn lose(&mut self, error: &LockError) {
        if self.why.is_none() {
            self.gate.say_lost();
        }
        let Some(plan) = &mut self.plan else { return };
        let step = plan.end(clock::now());
        self.why.get_or_insert_with(|| error.to_string());
        if let Some(step) = step {
            self.carry_out(step);
        }
    }

    fn carry_out(&mut self, step: DueSignal) {
        match step {
            DueSignal::Ask => {
                // This comes first. If this process is killed now, the command must not get more time.
                if let (Some(guardian), Some(plan)) = (&self.guardian, &self.plan)
                    && let Some(kill_at) = plan.kill_at()
                {
                    drop(guardian.asked(kill_at + self.margin / 2));
                }
                self.group.ask_to_end(signals::named(&self.ending.signal));
            }
            DueSignal::Kill => self.killed = Some(self.group.kill(clock::now())),
        }
    }

    fn receive(&mut self, signal: Signal) {
        match signal {
            Signal::CONT => self.go_on(),
            signal if signals::is_stop(signal) => self.stop(signal),
            Signal::USR1 | Signal::USR2 => self.group.signal(signal),
            signal => self.group.ask_to_end(signal),
        }
    }

    /// A shell or a terminal stops the job of this process.
    fn stop(&mut self, signal: Signal) {
        if let Some(terminal) = &self.terminal {
            if signals::is_from_terminal_use(signal) && terminal.is_lent_to(self.group) {
                // Another process of the job wants to use the terminal.
                terminal.take_back(self.group);
                wake_own_group();
                return;
            }
            terminal.take_back(self.group);
        }
        self.group.signal(signal);
        self.stopped = Some(Instant::now());
        signals::take_effect(signal);
    }

    /// The job continues. This also applies if it was not stopped, because no shell would continue an orphaned process
    /// group.
    fn go_on(&mut self) {
        self.stopped = None;
        if let Some(terminal) = &self.terminal {
            terminal.lend_if_alone(self.group);
        }
        self.group.signal(Signal::CONT);
    }

    /// If a terminal has stopped the command, stops the job. If the command needs the terminal and the job has it,
    /// passes it to the command. (A command that was stopped by SIGSTOP stays stopped.)
    fn look_whether_it_is_stopped(&self) {
        let Some(signal) = self.group.stopped_by().filter(|signal| signals::is_stop(*signal)) else { return };
        let terminal = self.terminal.as_ref().filter(|_| signals::is_from_terminal_use(signal));
        if terminal.is_some_and(|terminal| terminal.lend(self.group)) {
            self.group.signal(Signal::CONT);
        } else if self.stopped.is_none() {
            // This process gets it, too: see `stop`.
            let _: rustix::io::Result<()> = kill_current_process_group(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_does_not_begin_after_its_lock_was_lost() {
        let manager = LockManager::in_memory();
        let guard = manager.lock("k").acquire().await.unwrap();
        may_begin(&guard).unwrap();
        assert!(manager.force_release("k").await.unwrap());
        guard.lost().await;
        assert!(may_begin(&guard).unwrap_err().is_lost());
    }
}
