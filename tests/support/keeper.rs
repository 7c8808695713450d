//! Servers that live as long as the test process, however that ends.
//!
//! A `static` is never dropped, so the servers that all tests of a process share would outlive it. A small shell waits
//! at the other end of a pipe instead: the kernel closes the pipe when the process is gone, and the shell ends the
//! servers and removes their directories.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use crate::RedisServer;

/// Standard input ends when the process that holds the pipe has ended. Signals from a terminal are not meant for it.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
read -r _
while [ "$1" ]; do
    kill -9 "$1"
    rm -rf "$2"
    shift 2
done
"#;

static KEEPERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Ends these servers, which must never be restarted, when this process has ended.
pub(crate) fn end_with_this_process<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) {
    end(servers.into_iter().map(|server| (server.pid(), server.directory())));
}

/// Ends processes that must never be restarted, and removes their directories, when this process has ended.
pub(crate) fn end<'a>(processes: impl IntoIterator<Item = (u32, &'a Path)>) {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "keeper"]);
    for (pid, directory) in processes {
        command.arg(pid.to_string()).arg(directory);
    }
    let keeper = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start `sh`: {error}"));
    KEEPERS.lock().unwrap().push(keeper);
}
