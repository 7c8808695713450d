//! The steps of an operator with a stuck holder. docs/operating.md has them as a transcript. This test runs its
//! commands, and fails if their output has changed. To write the transcript again:
//!
//! ```text
//! WRITE_TRANSCRIPT=1 cargo test -p distlock-cli --test command operator
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use distlock_tests::{RedisServer, eventually_blocking};

use super::{Running, distlock, text};

const BEGIN: &str = "```console\n$ distlock ls --waiting\n";
const END: &str = "```\n";
/// The name of this machine in the transcript.
const MACHINE: &str = "worker-3";

/// A shell with `distlock` in its path, and its input and output.
struct Shell<'a> {
    server: &'a RedisServer,
    folder: &'a Path,
    transcript: String,
}

impl Shell<'_> {
    /// Runs a line, and returns what it prints.
    fn run(&mut self, line: &str) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_distlock")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(self.folder).stdin(Stdio::null());
        command.env("PATH", path).env("DISTLOCK_URL", self.server.url()).env("COLUMNS", "120");
        for name in ["DISTLOCK_PREFIX", "DISTLOCK_NAME"] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        let printed = printed.replace(&host(), MACHINE);
        self.transcript += &format!("$ {line}\n{printed}");
        printed
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The report, with the name of the run as its argument.
const SCRIPT: &str = "echo $1: begins >> report.log; cat orders > /dev/null; echo $1: done >> report.log\n";

fn report(server: &RedisServer, folder: &Path, name: &str) -> Running {
    let arguments =
        ["--name", name, "run", "--key", "report", "--wait", "forever", "--", "sh", "report.sh", name];
    Running::start(distlock(server, &arguments).current_dir(folder))
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("report.log")).unwrap_or_default()
}

fn until_it_waits(server: &RedisServer, name: &str) {
    eventually_blocking("it waits", || {
        server.run_words::<Vec<String>>(&["LRANGE", "dl1:q:report", "0", "-1"]).join(" ").contains(name)
    });
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md")
}

/// The words of a text, with `#` instead of numbers, times and ids, which differ from run to run.
fn comparable(text: &str) -> Vec<String> {
    let word = |word: &str| {
        let parts = word.split_inclusive(|c: char| !c.is_alphanumeric());
        let part = |part: &str| {
            let (name, end) = match part.char_indices().next_back() {
                Some((at, c)) if !c.is_alphanumeric() => part.split_at(at),
                _ => (part, ""),
            };
            let name = if name.contains(|c: char| c.is_ascii_digit()) { "#" } else { name };
            format!("{name}{end}")
        };
        parts.map(part).collect::<String>().replace("#.#", "#")
    };
    text.replace(MACHINE, "MACHINE").split_whitespace().map(word).collect()
}

#[test]
fn a_stuck_holder_is_found_freed_and_followed_by_the_next_one() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    // No process writes into this pipe, so a process that reads it never continues.
    assert!(Command::new("mkfifo").arg(folder.join("orders")).status().unwrap().success());
    std::fs::write(folder.join("report.sh"), SCRIPT).unwrap();
    let mut stuck = report(&server, folder, "nightly");
    eventually_blocking("it works", || log(folder).contains("nightly: begins"));
    let mut next = report(&server, folder, "second-run");
    until_it_waits(&server, "second-run");
    let _last = report(&server, folder, "third-run");
    until_it_waits(&server, "third-run");
    // A lease that was renewed shows its label and its age.
    let was_renewed = |name: &str| {
        let records: Vec<String> = server.run_words(&["KEYS", "dl1:h:*"]);
        records.join(" ").contains(name)
    };
    eventually_blocking("its lease is renewed", || was_renewed("nightly"));
    let mut shell = Shell { server: &server, folder, transcript: String::new() };

    // Which locks do others wait for? Who holds this one, and does its process live?
    let listed = shell.run("distlock ls --waiting");
    assert!(listed.contains(&format!("{MACHINE}:{} distlock", stuck.process.id())), "{listed}");
    let shown = shell.run("distlock show report");
    assert!(shown.contains("  held by nightly.") && shown.contains(" left, "), "{shown}");
    assert!(shown.contains("1. waits second-run.") && shown.contains("2. waits third-run."), "{shown}");
    assert!(!shown.contains("no sign of life"), "it lives: {shown}");
    // Is the store the cause?
    let examined = shell.run("distlock doctor | grep -v ^ok; distlock ping");
    assert!(examined.contains("ok, ") && !examined.contains("fault"), "{examined}");
    // So the cause is its command. What does it do?
    let command =
        shell.run(&format!("ps --ppid {} -o pid,state,args | grep -v guardian", stuck.process.id()));
    let shell_of_it = command.lines().find(|line| line.contains("sh report.sh")).expect(&command);
    let pid = shell_of_it.split_whitespace().next().unwrap().to_owned();
    let reads = shell.run(&format!("ps --ppid {pid} -o pid,state,args; stat -c '%n is a %F' orders"));
    assert!(reads.contains("cat orders") && reads.contains("orders is a fifo"), "{reads}");
    // Release the lock, and see which process acquires it.
    let released = shell.run("distlock release report --force");
    assert!(released.starts_with("report was taken from nightly."), "{released}");
    assert_eq!(stuck.status().code(), Some(76), "its command was ended");
    eventually_blocking("the next one works", || log(folder).contains("second-run: begins"));
    eventually_blocking("its lease is renewed", || was_renewed("second-run"));
    let shown = shell.run("distlock show report");
    assert!(shown.contains("  held by second-run.") && shown.contains("1. waits third-run."), "{shown}");
    let log_of_it = shell.run("cat report.log");
    assert!(!log_of_it.contains("nightly: done"), "{log_of_it}");
    assert!(next.process.try_wait().unwrap().is_none());

    let document = document();
    let page = std::fs::read_to_string(&document).unwrap();
    let begin = page.find(BEGIN).expect("a transcript") + BEGIN.find('$').unwrap();
    let end = begin + page[begin..].find(END).expect("its end");
    if std::env::var_os("WRITE_TRANSCRIPT").is_some() {
        std::fs::write(&document, format!("{}{}{}", &page[..begin], shell.transcript, &page[end..])).unwrap();
        return;
    }
    assert_eq!(comparable(&page[begin..end]), comparable(&shell.transcript), "docs/operating.md; see above");
}
