//! Counts the commands that clients send.
//!
//! `INFO commandstats` and `total_commands_processed` cannot tell: since 7.0 they include what scripts call.
//! MONITOR shows every command with the address of its client, and `lua` in its place for those inside
//! scripts. It costs the server time, so nothing else is measured while it runs, except where the lock is
//! held so long that it does not matter.

use std::thread::{self, JoinHandle};

use crate::Result;
use crate::server::{Control, Server};

const MARKER: &str = "end-of-count";

/// A count on some servers that goes on until it is ended.
#[derive(Debug)]
pub struct Counting {
    servers: Vec<(Control, JoinHandle<Result<u64>>)>,
}

impl Counting {
    /// Begins to count what clients send to `servers`.
    ///
    /// # Errors
    /// If one does not answer.
    pub fn begin<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Result<Counting> {
        let one = |server: &Server| {
            let mut monitor = server.control()?;
            monitor.call("MONITOR")?;
            Result::Ok((server.control()?, thread::spawn(move || count_until_marker(monitor))))
        };
        Ok(Counting { servers: servers.into_iter().map(one).collect::<Result<_>>()? })
    }

    /// Ends the count, and tells how many commands were sent since it began.
    ///
    /// # Errors
    /// If a server does not answer.
    pub fn end(mut self) -> Result<u64> {
        // All at once first: so that the count ends everywhere at about the same time.
        for (control, _) in &mut self.servers {
            control.call(&format!("ECHO {MARKER}"))?;
        }
        let mut sum = 0;
        for (_, thread) in self.servers {
            sum += thread.join().map_err(|_| "a counting thread panicked")??;
        }
        Ok(sum)
    }
}

fn count_until_marker(mut monitor: Control) -> Result<u64> {
    let mut count = 0;
    loop {
        // +1779220000.123456 [0 127.0.0.1:4711] "SET" …, or [0 lua].
        let line = monitor.line()?;
        let Some((client, command)) = line.split_once(']') else { continue };
        if client.ends_with(" lua") {
            continue;
        }
        if command.contains(MARKER) {
            return Ok(count);
        }
        count += 1;
    }
}
