//! A shell with job control on a terminal, which `script` creates. Its input is typed.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use distlock_tests::{BOUND, RedisServer};
use tempfile::TempDir;

pub(super) const CTRL_C: &str = "\u{3}";
pub(super) const CTRL_Z: &str = "\u{1a}";
/// With a prompt that no command prints.
const SHELL: &str = "PS1='<prompt>' exec bash --norc --noprofile -i";

/// An interactive bash whose `distlock` uses a server. Tests wait for its output, and do not depend on time.
pub(super) struct Shell {
    process: Child,
    keyboard: ChildStdin,
    directory: TempDir,
    screen: Arc<Mutex<String>>,
    /// The output before this position was already awaited.
    seen: usize,
}

impl Shell {
    pub(super) fn start(server: &RedisServer) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // The process that runs the tests may ignore signals, as `nohup` and a script's `&` do. The shell must not
        // inherit that.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT,TERM,TSTP", "script", "-qec", SHELL, "/dev/null"]);
        command.current_dir(directory.path());
        let program = Path::new(env!("CARGO_BIN_EXE_distlock")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        command.env("TERM", "dumb").env("PATH", path);
        command.env("DISTLOCK_URL", server.url()).env_remove("DISTLOCK_PREFIX").env_remove("DISTLOCK_NAME");
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.expect("`script`, of Debian's package bsdutils");
        let (keyboard, mut output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                shown.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        let mut shell = Shell { process, keyboard, directory, screen, seen: 0 };
        shell.until("<prompt>");
        shell
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a file in the shell's folder. (The terminal shows typed text, too. So text that a command prints, and
    /// that a test waits for, comes from a file.)
    pub(super) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.directory.path().join(name), text).unwrap();
    }

    pub(super) fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until `text` is printed after the last awaited text.
    #[track_caller]
    pub(super) fn until(&mut self, text: &str) {
        self.until_one_of(&[text]);
    }

    /// Waits for the first of these texts, and returns it.
    #[track_caller]
    pub(super) fn until_one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        let found = || {
            let screen = self.screen();
            let rest = &screen[self.seen..];
            let places = texts.iter().filter_map(|text| rest.find(text).map(|at| (at + text.len(), *text)));
            places.min()
        };
        let start = Instant::now();
        while found().is_none() {
            assert!(
                start.elapsed() < BOUND,
                "no {texts:?} behind character {} of:\n{}",
                self.seen,
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        let (end, text) = found().expect("it was shown");
        self.seen += end;
        text
    }

    /// Waits until the shell reads again, and returns the status of the last command.
    #[track_caller]
    pub(super) fn status(&mut self) -> i32 {
        self.types("echo sta\"\"tus=$?=\n");
        self.until("status=");
        self.until("=");
        self.last_word().parse().unwrap()
    }

    /// The text between the last two `=` that were awaited.
    pub(super) fn last_word(&self) -> String {
        let screen = self.screen();
        let (_, word) = screen[..self.seen - 1].rsplit_once('=').unwrap();
        word.to_owned()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // This closes the terminal, and ends the processes on it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
