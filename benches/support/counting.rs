//! Counts the commands that clients send.
//!
//! `INFO commandstats` and `total_commands_processed` are not enough, because since 7.0 they include the commands of
//! scripts. MONITOR shows every command with the address of its client, or with `lua` for commands inside scripts. It
//! takes time of the server, so nothing else is measured meanwhile, unless the lock is held so long that it does not
//! matter.

use std::thread::{self, JoinHandle};

use crate::Result;
use crate::server::{Control, Server};

const MARKER: &str = "end-of-count";

/// A running count on some servers.
#[derive(Debug)]
pub struct Counting {
    servers: Vec<(Control, JoinHandle<Result<u64>>)>,
}

impl Counting {
    /// Starts to count the commands of clients to `servers`.
    ///
    /// # Errors
    /// If one does not reply.
    pub fn begin<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Result<Counting> {
        let one = |server: &Server| {
            let mut monitor = server.control()?;
            monitor.call("MONITOR")?;
            Result::Ok((server.control()?, thread::spawn(move || count_until_marker(monitor))))
        };
        Ok(Counting { servers: servers.into_iter().map(one).collect::<Result<_>>()? })
    }

    /// Ends the count, and returns the number of commands since its begin.
    ///
    /// # Errors
    /// If a server does not reply.
    pub fn end(mut self) -> Result<u64> {
        // First on all servers, so that the count ends everywhere at about the same time.
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
