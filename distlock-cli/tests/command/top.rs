//! `top` on a terminal, which `script` creates: its screen and its keys.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use distlock_tests::{RedisServer, eventually_blocking};

use super::{Running, assert_status, distlock, holding, is_free, output, text, waiting};

const ROWS: u16 = 30;
const COLUMNS: u16 = 120;

/// A terminal with `top` on it. It is closed when this is dropped.
pub(super) struct Terminal {
    process: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    pub(super) fn start(server: &RedisServer, arguments: &str) -> Self {
        Self::of_size(server, arguments, (ROWS, COLUMNS))
    }

    fn of_size(server: &RedisServer, arguments: &str, (rows, columns): (u16, u16)) -> Self {
        let line = format!(
            "stty rows {rows} cols {columns}; $DISTLOCK top {arguments}; echo status: $?; stty -a | grep -o ' icanon'"
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("DISTLOCK_URL", server.url()).env("TERM", "xterm");
        command.env("DISTLOCK", env!("CARGO_BIN_EXE_distlock")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("`script`, of Debian's package bsdutils");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (mut output, parser) = (process.stdout.take().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                parser.lock().unwrap().process(&bytes[..count]);
            }
        });
        let keyboard = process.stdin.take().unwrap();
        Terminal { process, keyboard, screen }
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub(super) fn until_shown(&self, what: &str) {
        let shows = || self.shown().contains(what);
        let start = std::time::Instant::now();
        while !shows() {
            assert!(start.elapsed() < distlock_tests::BOUND, "no `{what}` on:\n{}", self.shown());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn until_gone(&self, what: &str) {
        eventually_blocking("it is gone from the screen", || !self.shown().contains(what));
    }

    pub(super) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn it_shows_locks_as_they_come_and_go_with_holders_and_waiters() {
    let server = RedisServer::start();
    let one = holding(&server, "nightly", "report");
    let mut terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("1 held  0 awaited");
    terminal.until_shown(&format!(":{} distlock", one.process.id()));
    let late = waiting(&server, "late", "report");
    terminal.until_shown("1 held  1 awaited  1 processes wait");
    // The selected lock is shown with all its holders and waiters.
    terminal.until_shown("waits:");
    terminal.until_shown(&format!(":{} distlock", late.process.id()));
    let _other = holding(&server, "shop", "order:42");
    terminal.until_shown("order:42");
    terminal.types("/order\r");
    terminal.until_gone("report");
    terminal.until_shown("filter: order");
    drop(_other);
    drop((one, late));
    terminal.types("q");
    // The previous screen and the terminal's line mode are restored.
    terminal.until_shown("status: 0");
    terminal.until_shown(" icanon");
}

#[test]
fn a_lock_is_taken_away_after_a_yes_and_the_next_one_comes_in() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "dl1:gone.0123:4", "PX", "600000"]);
    let mut next = waiting(&server, "late", "k");
    let mut terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("gone.0123");
    terminal.types("xn");
    terminal.until_shown("nothing was changed");
    assert_eq!(server.get("k").as_deref(), Some("dl1:gone.0123:4"));
    // Ctrl-K, as in k9s.
    terminal.types("\x0b");
    terminal.until_shown("Release it? [y/N]");
    terminal.types("y");
    terminal.until_shown("k was taken from gone.0123");
    assert_eq!(next.line(), "got it");
    // The rest of the released lease disappears. No other lease lasts for minutes.
    terminal.until_gone("9m");
}

/// The lock may pass to another holder while the question is on the screen.
#[test]
fn a_lock_is_taken_from_the_holder_in_the_question_and_from_no_other() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "dl1:first.0123:4", "PX", "600000"]);
    let _waits = waiting(&server, "late", "k");
    let mut terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("first.0123");
    terminal.types("x");
    terminal.until_shown("Release it? [y/N]");
    server.raw(&["SET", "k", "dl1:second.4567:8", "PX", "600000"]);
    terminal.types("y");
    terminal.until_shown("k now has another holder: nothing was changed");
    assert_eq!(server.get("k").as_deref(), Some("dl1:second.4567:8"));
}

/// This holds for keys and names of any length.
#[test]
fn the_question_is_whole_on_a_small_screen_and_a_narrow_one_shows_the_keys() {
    let server = RedisServer::start();
    let key = format!("order:{}:the-end", "0123456789".repeat(12));
    server.raw(&["SET", &key, "dl1:gone.0123:4", "PX", "600000"]);
    let _next = waiting(&server, "late", &key);
    let mut terminal = Terminal::of_size(&server, "--every 200ms", (24, 80));
    terminal.until_shown("gone.0123");
    terminal.types("x");
    terminal.until_shown("Release it? [y/N]");
    let shown = terminal.shown();
    let line = shown.lines().find(|line| line.contains("[y/N]")).unwrap();
    assert!(line.contains("order:0123") && line.contains("the-end"), "{line}");
    assert!(shown.lines().any(|line| line.starts_with("held by")), "{shown}");
    terminal.types("n?");
    terminal.until_shown("release the selected lock, after a question");
    drop(terminal);
    let terminal = Terminal::of_size(&server, "--every 200ms", (24, 40));
    terminal.until_shown("KEY");
    terminal.until_shown("order:012345");
    let rows = terminal.shown();
    assert!(rows.lines().any(|line| line.starts_with("order:012345")), "{rows}");
    assert!(!terminal.shown().contains("KIND") && terminal.shown().contains("OWNER"), "{}", terminal.shown());
}

/// The shown data is old during the outage.
#[test]
fn an_outage_is_shown_with_its_age_and_forgotten_after_it() {
    let mut server = RedisServer::start();
    let mut terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("0 held");
    server.kill9();
    terminal.until_shown("cannot connect");
    terminal.until_shown("ago; failing for");
    server.restart();
    terminal.until_gone("cannot connect");
    terminal.until_shown("? help");
    terminal.types("j");
    terminal.until_shown("0 held");
}

/// Their process is dead, but the store still has the locks.
#[test]
fn locks_of_a_process_that_is_silent_are_shown_and_it_is_counted() {
    let server = RedisServer::start();
    let arguments =
        ["--name", "it-dies", "run", "--key", "a", "--ttl", "10m", "-c", "echo begun; sleep 1000"];
    let mut holder = Running::start(&mut distlock(&server, &arguments));
    assert_eq!(holder.line(), "begun");
    let terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("1 held");
    holder.process.kill().unwrap();
    terminal.until_shown("1 clients without a sign of life");
    terminal.until_shown("1 held");
}

/// Each process counts its requests that found the lock busy.
#[test]
fn it_shows_how_often_locks_are_busy() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let manager = runtime.block_on(distlock::LockManager::connect(server.url())).unwrap();
    let _guard = runtime.block_on(manager.lock("k").acquire()).unwrap();
    let terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("0.0 busy/s  0.0 lost/s");
    let asks = runtime.spawn(async move {
        loop {
            drop(manager.lock("k").no_wait().acquire().await);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    eventually_blocking("it is seen", || {
        let shown = terminal.shown();
        shown.contains(" busy/s") && !shown.contains(" 0.0 busy/s") && !shown.contains(" - busy/s")
    });
    asks.abort();
}

/// Each process counts the locks that it has lost.
#[test]
fn it_shows_how_often_locks_are_lost() {
    let server = RedisServer::start();
    let manager = distlock::blocking::LockManager::connect(server.url()).unwrap();
    let terminal = Terminal::start(&server, "--every 200ms");
    terminal.until_shown("0.0 busy/s  0.0 lost/s");
    eventually_blocking("it is seen", || {
        let guard = manager.lock("k").acquire().unwrap();
        manager.force_release("k").unwrap();
        eventually_blocking("it is lost", || !guard.is_held());
        let shown = terminal.shown();
        shown.contains(" lost/s") && !shown.contains(" 0.0 lost/s") && !shown.contains(" - lost/s")
    });
    assert!(terminal.shown().contains(" 0.0 busy/s"));
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let server = RedisServer::start();
    let refused = output(&mut distlock(&server, &["top"]));
    assert_status(&refused, 64);
    assert!(text(&refused.stderr).contains("distlock ls"));
    assert!(is_free(&server, "k"));
}

/// The terminal is restored after a signal, too.
#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let server = RedisServer::start();
    let terminal = Terminal::start(&server, "");
    terminal.until_shown("0 held");
    let find = || {
        let children = format!("/proc/{0}/task/{0}/children", terminal.process.id());
        let shell = std::fs::read_to_string(children).ok()?.split_whitespace().next()?.to_owned();
        let children = format!("/proc/{shell}/task/{shell}/children");
        std::fs::read_to_string(children).ok()?.split_whitespace().last()?.parse::<i32>().ok()
    };
    let top = rustix::process::Pid::from_raw(find().unwrap()).unwrap();
    rustix::process::kill_process(top, rustix::process::Signal::TERM).unwrap();
    terminal.until_shown("status: 143");
    terminal.until_shown(" icanon");
}
