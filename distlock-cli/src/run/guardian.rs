//! A process that ends the command if `distlock run` is killed, so that the command does not outlive the lease.
//!
//! It reads from a pipe. An orderly end is one line; a pipe that ends without it means that nobody renews the lease any
//! more. The lease then has at least --kill-after left, because `run` would have ended the command before.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::group::Group;
use super::signals;
use crate::args;
use crate::exit::Exit;
use crate::span::Span;

const DONE: &str = "done";

/// The end of the pipe in `distlock run`.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Child,
    pipe: ChildStdin,
}

impl Guardian {
    pub(super) fn start(kill_after: Span, signal: &str) -> std::io::Result<Guardian> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["guardian", "--signal", signal, "--kill-after"]);
        command.arg(format!("{}ms", kill_after.0.as_millis()));
        // A group of its own: what is sent to ours, by a terminal or by a shell, must not end it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut process = command.spawn()?;
        let pipe = process.stdin.take().ok_or_else(|| std::io::Error::other("no pipe to the guardian"))?;
        Ok(Guardian { process, pipe })
    }

    /// From now on it watches over the command.
    pub(super) async fn watch(&mut self, group: Group) -> std::io::Result<()> {
        self.pipe.write_all(format!("{}\n", group.pid().as_raw_nonzero()).as_bytes()).await?;
        self.pipe.flush().await
    }

    /// The command has ended.
    pub(super) async fn dismiss(mut self) {
        // If it has died, it needs no dismissal.
        drop(self.pipe.write_all(format!("{DONE}\n").as_bytes()).await);
        drop(self.pipe);
        drop(self.process.wait().await);
    }
}

/// The guardian itself.
pub(crate) async fn guard(options: &args::Guardian) -> Result<Exit, Exit> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut group = None;
    while let Ok(Some(line)) = lines.next_line().await {
        if line == DONE {
            return Ok(Exit::Success);
        }
        group = line.parse().ok().and_then(|number| Group::of(number).ok());
    }
    let Some(group) = group else { return Ok(Exit::Success) };
    eprintln!("distlock: `distlock run` was killed: ending the command");
    group.ask_to_end(signals::named(&options.signal));
    let patience = tokio::time::sleep(options.kill_after.0);
    tokio::select! {
        () = super::until_gone(group) => {}
        () = patience => group.signal(rustix::process::Signal::KILL),
    }
    Ok(Exit::Lost)
}
