//! The signals of `distlock run`: they are passed on to the command, or end the wait.
//!
//! They are blocked, and a thread reads them. So this process keeps the actions that it was started with: a terminal
//! can stop it, a signal can end it like any program, and ignored signals stay ignored, here and in the command
//! (`nohup`).

use nix::sys::signal::{self, SigSet};
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, setrlimit};
use tokio::sync::mpsc;

use crate::exit::Exit;

/// The signals that are passed on, with their names.
const PASSED_ON: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

/// Shells and terminals stop and continue a job with these signals.
const JOB_CONTROL: [Signal; 4] = [Signal::TSTP, Signal::TTIN, Signal::TTOU, Signal::CONT];

/// The signal of that name.
pub(super) fn named(name: &str) -> Signal {
    PASSED_ON.iter().find(|(known, _)| *known == name).map_or(Signal::TERM, |(_, signal)| *signal)
}

/// Whether a terminal sends this signal to stop a job, or to a background process that uses the terminal.
pub(super) fn is_stop(signal: Signal) -> bool {
    is_from_terminal_use(signal) || signal == Signal::TSTP
}

pub(super) fn is_from_terminal_use(signal: Signal) -> bool {
    [Signal::TTIN, Signal::TTOU].contains(&signal)
}

/// Reads the signals as soon as it is created.
#[derive(Debug)]
pub(super) struct Signals {
    receiver: mpsc::UnboundedReceiver<Signal>,
    /// The last signal that asked the program to end. SIGQUIT does not count: many programs survive it, for example a
    /// JVM, which then lists its threads. Others end when they get it.
    asked_to_end: Option<Signal>,
}

impl Signals {
    /// Call this before the process has a second thread, which would not block the signals.
    pub(super) fn catch() -> Result<Self, Exit> {
        let failed = |error: &dyn std::fmt::Display| Exit::Unavailable.because(&format!("signals: {error}"));
        let ignored = ignored();
        let all = PASSED_ON.iter().map(|(_, signal)| *signal).chain(JOB_CONTROL);
        let set = set(all.filter(|signal| ignored & bit(*signal) == 0));
        set.thread_block().map_err(|error| failed(&error))?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let read = move || {
            while let Ok(signal) = set.wait() {
                let signal = Signal::from_named_raw(signal as i32);
                if signal.is_some_and(|signal| sender.send(signal).is_err()) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(read);
        thread.map_err(|error| failed(&error))?;
        Ok(Signals { receiver, asked_to_end: None })
    }

    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Signal {
        match self.receiver.recv().await {
            Some(signal) => {
                if [Signal::TERM, Signal::INT].contains(&signal) {
                    self.asked_to_end = Some(signal);
                }
                signal
            }
            // The thread ends only if it cannot wait for signals.
            None => std::future::pending().await,
        }
    }

    /// The signal that has asked this process to end, or its command.
    pub(super) fn asked_to_end(&self) -> Option<Signal> {
        self.asked_to_end
    }
}

fn bit(signal: Signal) -> u64 {
    u32::try_from(signal.as_raw() - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

/// The signals that this process was started to ignore.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn set(signals: impl IntoIterator<Item = Signal>) -> SigSet {
    let known = signals.into_iter().filter_map(|signal| signal::Signal::try_from(signal.as_raw()).ok());
    known.collect()
}

/// Unblocks all signals, in a process that becomes the command.
pub(super) fn unblock() {
    let _: nix::Result<()> = SigSet::all().thread_unblock();
}

/// Executes the default action of `signal`. If the signal stops the process, returns when it continues, or at once if
/// its process group is orphaned, because no shell would continue it.
pub(super) fn take_effect(signal: Signal) {
    let set = set([signal]);
    let _: nix::Result<()> = set.thread_unblock();
    for signal in &set {
        let _: nix::Result<()> = signal::raise(signal);
    }
    let _: nix::Result<()> = set.thread_block();
}

/// Ends this process like a command that was ended by signal `number`, so that the parent notices: a shell whose
/// command dies of SIGINT ends its script. Returns if that is impossible, also for SIGPIPE, which Rust ignores.
pub(crate) fn die_of(number: i32) {
    // The first process of a container ignores signals that it sends to itself.
    let Some(signal) = Signal::from_named_raw(number).filter(|_| getpid() != Pid::INIT) else { return };
    // A core dump of `distlock` would replace that of the command.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _: rustix::io::Result<()> = setrlimit(Resource::Core, none);
    // Twice: Rust's handler of SIGSEGV and SIGBUS, for overflows of the stack, only restores the default action.
    take_effect(signal);
    take_effect(signal);
}
