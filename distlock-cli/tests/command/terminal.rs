//! On a terminal, made by `script`: the command is in the foreground while it runs, and `distlock` is afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use distlock_tests::RedisServer;

/// What `line`, a shell's, prints on a terminal on which somebody types `typed` as soon as it says `ready`.
fn on_a_terminal(server: &RedisServer, line: &str, typed: &str) -> String {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]).env("DISTLOCK_URL", server.url());
    command.env("DISTLOCK", env!("CARGO_BIN_EXE_distlock")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("`script`, of Debian's package bsdutils");
    let mut screen = BufReader::new(process.stdout.take().unwrap());
    let mut shown = String::new();
    while !shown.contains("ready") {
        assert_ne!(screen.read_line(&mut shown).unwrap(), 0, "it has ended: {shown}");
    }
    // Kept to the end: the end of what is typed would end the terminal.
    let mut keyboard = process.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).unwrap();
    screen.read_to_string(&mut shown).unwrap();
    drop(keyboard);
    process.wait().unwrap();
    shown
}

#[test]
fn the_command_reads_from_it_and_the_shell_does_afterwards() {
    let server = RedisServer::start();
    let line = "$DISTLOCK run --key k -- sh -c 'echo ready; read x; echo first: $x; exit 3'; echo status: $?; read y; echo then: $y";
    let shown = on_a_terminal(&server, line, "one\ntwo\n");
    for expected in ["first: one", "status: 3", "then: two"] {
        assert!(shown.contains(expected), "{shown}");
    }
}

/// What a person types as Ctrl-C goes to the command.
#[test]
fn an_interrupt_ends_the_command() {
    let server = RedisServer::start();
    let line = "$DISTLOCK run --key k -- sh -c 'trap \"exit 7\" INT; echo ready; read x'; echo status: $?";
    let shown = on_a_terminal(&server, line, "\u{3}");
    assert!(shown.contains("status: 7") || shown.contains("status: 130"), "{shown}");
    assert!(!server.exists("k"));
}
