//! A process that ends the command if `distlock run` cannot, because it was killed, or because it is paused and does
//! not renew the lease.
//!
//! After each renewal, it reads from a pipe how long the command may run. It ends the command at the end of that time.
//! If the pipe closes without a final message, `distlock run` was killed. The guardian then uses the last times that it
//! has read, so a command that was already asked to end gets no further time.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::process::{Child, Command};

use super::group::{Group, last_words};
use super::orders::{self, Orders};
use super::plan::DueSignal;
use super::{clock, own_program, signals};
use crate::args::{self, Ending, OnLost};
use crate::exit::Exit;
use crate::out::complain;

/// How long the guardian may take to end. It may be stopped itself.
const DISMISSAL: Duration = Duration::from_secs(1);
/// The pauses between checks for remaining processes of the command. They become longer.
const CHECK_INTERVALS: std::ops::Range<Duration> = Duration::from_millis(5)..Duration::from_secs(1);

/// The end of the pipe in `distlock run`.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Child,
    pipe: OwnedFd,
}

impl Guardian {
    pub(super) fn start(ending: &Ending) -> io::Result<Guardian> {
        // Nonblocking, so that this process never waits for a guardian that does not read. The pipe has room for
        // thousands of lines.
        let (reader, pipe) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let mut command = Command::new(own_program()?);
        command.arg0("distlock").args(["guardian", "--signal", &ending.signal]);
        if ending.on_lost == OnLost::Signal {
            command.arg("--kill-after").arg(format!("{}ms", ending.kill_after.0.as_millis()));
        }
        // A separate process group, because signals that a terminal or a shell sends to the group of this process must
        // neither end nor stop the guardian.
        command.stdin(reader).stdout(Stdio::null()).process_group(0);
        Ok(Guardian { process: command.spawn()?, pipe })
    }

    /// From now on it watches over the command.
    pub(super) fn watch(&self, group: Group) -> io::Result<()> {
        self.write(&orders::group(group))
    }

    /// The lease lets the command run until `kill_at`.
    pub(super) fn renewed(&self, kill_at: Duration) -> io::Result<()> {
        self.write(&orders::until(kill_at))
    }

    /// The command is asked to end, and is killed at `kill_at`.
    pub(super) fn asked(&self, kill_at: Duration) -> io::Result<()> {
        self.write(&orders::asked(kill_at))
    }

    fn write(&self, line: &str) -> io::Result<()> {
        // The write is atomic, because the line is shorter than `PIPE_BUF`.
        rustix::io::write(&self.pipe, line.as_bytes())?;
        Ok(())
    }

    /// The command has ended. Returns whether the guardian had to end it.
    pub(super) async fn dismiss(mut self) -> bool {
        // If it has died, it needs no dismissal.
        drop(self.write(orders::DONE));
        drop(self.pipe);
        let ended = tokio::time::timeout(DISMISSAL, self.process.wait()).await;
        matches!(ended, Ok(Ok(status)) if status.code() == Some(Exit::Lost.status().into()))
    }
}

/// The guardian itself.
pub(crate) fn guard(options: &args::Guardian) -> Exit {
    // From now on, only SIGKILL and SIGSTOP have an effect, and a terminal does not stop the guardian when it writes.
    let _: nix::Result<()> = SigSet::all().thread_block();
    // Otherwise `ps` would list it by the name of the executed file: `exe`.
    drop(std::fs::write("/proc/self/comm", "distlock"));
    match watch_over(options) {
        Ok(exit) => exit,
        Err(error) => Exit::Unavailable.because(&format!("the guardian: {error}")),
    }
}

fn watch_over(options: &args::Guardian) -> io::Result<Exit> {
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    let mut orders = Orders::new(options.kill_after.map(|span| span.0));
    let signal = signals::named(&options.signal);
    let (mut pause, mut killed) = (CHECK_INTERVALS.start, None);
    let exit = loop {
        let now = clock::now();
        while let Some((step, group)) = orders.due(now) {
            match step {
                DueSignal::Ask => group.ask_to_end(signal),
                DueSignal::Kill => (pause, killed) = (CHECK_INTERVALS.start, Some(group.kill(now))),
            }
        }
        if let Some(exit) = orders.exit(Group::is_gone) {
            break exit;
        }
        if let Some(killed) = &mut killed {
            killed.finds_survivor(now);
        }
        let mut next = orders.next();
        if orders.is_ending() {
            let look = now + pause;
            next = Some(next.map_or(look, |next| next.min(look)));
            pause = (pause * 2).min(CHECK_INTERVALS.end);
        }
        wait(&timer, &orders, next)?;
        read(&mut orders)?;
    };
    // Only now, because a full pipe would block this process, and then no SIGKILL would follow.
    if let Some(why) = orders.untold() {
        complain(format_args!("{why}: {}", last_words(killed.as_ref())));
    }
    Ok(exit)
}

/// Waits until the pipe has data, or until `until`. The timer continues while the machine sleeps.
fn wait(timer: &OwnedFd, orders: &Orders, until: Option<Duration>) -> io::Result<()> {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would switch the timer off.
    let it_value = until.map_or(zero, |until| Timespec {
        tv_sec: until.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: until.subsec_nanos().into(),
    });
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval: zero, it_value })?;
    let (timer, pipe) = (PollFd::new(timer, PollFlags::IN), rustix::stdio::stdin());
    let polled = if orders.is_open() {
        poll(&mut [timer, PollFd::new(&pipe, PollFlags::IN)], None)
    } else {
        poll(&mut [timer], None)
    };
    match polled {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads all available data.
fn read(orders: &mut Orders) -> io::Result<()> {
    let mut bytes = [0; 4096];
    while orders.is_open() {
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
            Ok(0) => orders.closed(clock::now()),
            Ok(count) => orders.read(&bytes[..count]),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
