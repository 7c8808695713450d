//! Another process that acquires locks: `lock-client`, controlled line by line over its standard input.
//!
//! It replies with one JSON object per line. Tests find its binary with `env!("CARGO_BIN_EXE_lock-client")`.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use distlock_fixtures::{BOUND, signals};

use crate::{History, Line, Section};

/// One line of a client process.
#[derive(Debug, Clone, PartialEq)]
pub struct Event(pub serde_json::Value);

impl Event {
    /// The name of the event: `ready`, `acquired`, `busy`, `error`, `released`, `lost`, `section`, `done`, …
    #[must_use]
    pub fn name(&self) -> &str {
        self.0["event"].as_str().unwrap_or_default()
    }

    /// A text field. Empty if it is missing.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// A number. `None` if it is missing.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<u64> {
        self.0[field].as_u64()
    }

    /// A time on [`shared_clock`](crate::shared_clock), in microseconds.
    #[must_use]
    pub fn time(&self, field: &str) -> Duration {
        Duration::from_micros(self.number(field).unwrap_or_else(|| panic!("no `{field}` in {self:?}")))
    }

    /// The section that a `section` event describes.
    #[must_use]
    pub fn section(&self, holder: &str) -> Section {
        let fence = self.number("fence");
        Section { fence, ..Section::new(holder, self.text("key"), self.time("entered"), self.time("left")) }
    }

    /// The sections, one for each key, from an `entered` event to a `left` event. Without a `left` event, they end when
    /// the holder was `gone`, or at the deadline that it knew first.
    #[must_use]
    pub fn sections(&self, holder: &str, end: Result<&Event, Duration>) -> Vec<Section> {
        let kind = self.text("kind").parse().unwrap_or_else(|error| panic!("{error} in {self:?}"));
        let left = match end {
            Ok(left) => left.time("at"),
            Err(gone) => gone.min(self.time("until")),
        };
        let keys: Vec<&str> =
            self.0["keys"].as_array().into_iter().flatten().filter_map(|key| key.as_str()).collect();
        // The later keys are requested after the first one was acquired.
        let line = (keys.len() == 1).then(|| Line {
            process: holder.to_owned(),
            asked: self.time("asked"),
            stood: self.time("stood"),
        });
        let section = |key: &&str| Section {
            kind,
            fence: self.number("fence"),
            line: line.clone(),
            ..Section::new(holder, key, self.time("at"), left)
        };
        keys.iter().map(section).collect()
    }
}

/// A running client process. It is killed when this is dropped.
#[derive(Debug)]
pub struct LockClient {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Event>,
}

impl LockClient {
    /// Starts a client of the server at `url` and waits until it has connected.
    #[must_use]
    pub fn connect(binary: &str, url: &str) -> Self {
        let client = Self::spawn(Command::new(binary).arg(url));
        client.expect("ready");
        client
    }

    /// Starts any program with the same commands and events.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(Event(event)).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command line.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}")
            .and_then(|()| self.input.flush())
            .expect("the client process is alive");
    }

    /// Sends a command line and returns the next event.
    pub fn ask(&mut self, line: &str) -> Event {
        self.send(line);
        self.next()
    }

    /// The next event.
    ///
    /// # Panics
    /// If there is none within [`BOUND`], or the process has ended.
    #[must_use]
    pub fn next(&self) -> Event {
        self.next_if_alive().expect("the client process is alive")
    }

    /// The next event. `None`: the process has ended.
    ///
    /// # Panics
    /// If there is no event within [`BOUND`].
    #[must_use]
    pub fn next_if_alive(&self) -> Option<Event> {
        match self.lines.recv_timeout(BOUND) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => panic!("the client process said nothing for {BOUND:?}"),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// The next event, if there is already one.
    #[must_use]
    pub fn try_next(&self) -> Option<Event> {
        self.lines.try_recv().ok()
    }

    /// The next event, which must be this one.
    pub fn expect(&self, name: &str) -> Event {
        let event = self.next();
        assert_eq!(event.name(), name, "{event:?}");
        event
    }

    /// Reads `section` events into a history until `done`, which it returns.
    pub fn sections(&self, holder: &str, history: &mut History) -> Event {
        loop {
            let event = self.next();
            match event.name() {
                "section" => history.add(event.section(holder)),
                "done" => return event,
                _ => panic!("{holder}: {event:?}"),
            }
        }
    }

    /// kill −9. Returns when its sockets are closed.
    pub fn kill9(&mut self) {
        signals::kill9(&mut self.child);
    }

    /// SIGSTOP. Returns when it has stopped.
    pub fn stop(&self) {
        signals::stop(&self.child);
    }

    /// SIGCONT.
    pub fn cont(&self) {
        signals::cont(&self.child);
    }
}

impl Drop for LockClient {
    fn drop(&mut self) {
        self.kill9();
    }
}
