//! The commands that the server has executed, in its order, by MONITOR.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread::{self, JoinHandle};

use super::super::scripts::SCRIPTS;
use super::super::test_server::TestServer;

/// The last command of a run.
const END: &str = "the end of the run";

/// The number of pushed grants for each one that is published twice.
const DOUBLED: usize = 20;

/// How often a grant is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Published {
    Once,
    /// One of [`DOUBLED`] is published again.
    SomeTwice,
}

pub(super) struct Monitor {
    thread: JoinHandle<Vec<String>>,
}

/// A script that a line of MONITOR is about, and what it did until the next one.
struct Executed {
    micros: u64,
    command: &'static str,
    token: String,
    ttl: String,
    /// The waiters to whom the lock was given, as far as they hear.
    published: Vec<String>,
    granted: String,
}

impl Executed {
    fn line(&self) -> String {
        let Executed { micros, command, token, ttl, published, granted } = self;
        let passed_over: Vec<_> = published.iter().filter(|token| *token != granted).collect();
        format!(
            r#"{{"t":{micros},"ev":"server","cmd":"{command}","n":"{token}","ttl":{ttl},"passed_over":{passed_over:?}}}"#
        )
    }
}

impl Monitor {
    /// Returns when the server sends what it executes.
    pub(super) fn start(server: &TestServer, key: &str, published: Published) -> Monitor {
        for script in SCRIPTS.all() {
            drop(server.text(&["SCRIPT", "LOAD", script.code]));
        }
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert_eq!(first.trim_end(), "+OK");
        let again = (published == Published::SomeTwice)
            .then(|| TcpStream::connect(("127.0.0.1", server.port)).unwrap());
        let key = key.to_owned();
        Monitor { thread: thread::spawn(move || read(lines, &key, again)) }
    }

    /// All commands that were executed until now.
    pub(super) fn end(self, server: &TestServer) -> Vec<String> {
        drop(server.text(&["ECHO", END]));
        self.thread.join().unwrap()
    }
}

fn read(lines: BufReader<TcpStream>, key: &str, mut again: Option<TcpStream>) -> Vec<String> {
    let mut executed: Vec<Executed> = Vec::new();
    let (mut grants, mut push, mut is_ours) = (0, String::new(), false);
    for line in lines.lines().map(Result::unwrap) {
        let Some((head, arguments)) = line.split_once("] \"") else { continue };
        let arguments: Vec<&str> = arguments.trim_end().trim_end_matches('"').split("\" \"").collect();
        match (head.ends_with(" lua"), arguments.as_slice()) {
            (false, ["ECHO", END]) => break,
            (false, ["EVALSHA", hash, keys, rest @ ..]) => {
                let keys: usize = keys.parse().unwrap();
                let command = command_of(hash).filter(|_| rest.first() == Some(&key));
                is_ours = command.is_some();
                let Some(command) = command else { continue };
                let (token, ttl) = (rest[keys].to_owned(), rest.get(keys + 1).copied().unwrap_or("0"));
                let ttl = if command == "leave" { "0" } else { ttl }.to_owned();
                let (micros, published, granted) = (micros(head), Vec::new(), String::new());
                executed.push(Executed { micros, command, token, ttl, published, granted });
            }
            // The server may have been kept waiting since the line of the script.
            (true, ["TIME"]) if is_ours => executed.last_mut().unwrap().micros = micros(head),
            (true, ["PUBLISH", channel, message]) => {
                let Some(grant) = message.strip_prefix("g ") else { continue };
                let fields: Vec<_> = grant.split(' ').collect();
                let executed = executed.last_mut().unwrap();
                executed.micros = fields[0].parse().unwrap();
                executed.published.push(fields[3].to_owned());
                push = format!("PUBLISH {channel} \"{message}\"\r\n");
            }
            (true, ["SET", lock, token, "PX", _]) if lock == &key => {
                let executed = executed.last_mut().unwrap();
                executed.granted = (*token).to_owned();
                // Only a grant that has arrived: any other would be forged. An acquisition is no grant.
                if executed.published.last() != Some(&executed.granted) {
                    continue;
                }
                grants += 1;
                if let Some(again) = again.as_mut().filter(|_| grants % DOUBLED == 0) {
                    again.write_all(push.as_bytes()).unwrap();
                }
            }
            _ => {}
        }
    }
    executed.iter().map(Executed::line).collect()
}

/// The time of a line that begins with `+<seconds>.<microseconds>`.
fn micros(head: &str) -> u64 {
    head.trim_start_matches('+').split(' ').next().unwrap().replace('.', "").parse().unwrap()
}

fn command_of(hash: &str) -> Option<&'static str> {
    let scripts = &*SCRIPTS;
    let known = [
        (&scripts.enter, "enter"),
        (&scripts.leave, "leave"),
        (&scripts.leave_alone, "leave_alone"),
        (&scripts.renew, "renew"),
    ];
    known.into_iter().find(|(script, _)| script.hash == hash).map(|(_, command)| command)
}
