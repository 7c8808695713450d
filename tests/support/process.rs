//! Signals to child processes, and a clock that all processes of this machine agree on.

use std::{process::Child, time::Duration};

use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};

/// Time since boot, suspend included: comparable between processes.
pub fn shared_clock() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}

/// SIGSTOP: the process keeps its sockets and does nothing, and has done nothing once this returns.
pub(crate) fn stop(child: &Child) {
    kill_process(pid(child), Signal::STOP).expect("SIGSTOP to our own child");
    crate::eventually_blocking("the process is stopped", || state(child) == Some('T'));
}

/// SIGCONT: it goes on as if no time had passed.
pub(crate) fn cont(child: &Child) {
    kill_process(pid(child), Signal::CONT).expect("SIGCONT to our own child");
}

/// SIGKILL, and waits until the kernel has closed its sockets.
pub(crate) fn kill9(child: &mut Child) {
    // Fails only when the process is gone already, which is what was asked for.
    if child.kill().is_ok() {
        child.wait().expect("wait for our own child");
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The state letter of `/proc/<pid>/stat`, which follows the parenthesised command name.
fn state(child: &Child) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}
