//! What the server answers, without a browser.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use distlock::blocking::LockManager;
use distlock_tests::RedisServer;
use serde_json::Value;

use crate::http::{open, send};

pub(crate) const TOKEN: &str = "0123456789abcdef0123";

/// `distlock …` on this server.
pub(crate) fn distlock(store: &RedisServer, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    command.arg("--url").arg(store.url()).args(arguments).stdin(Stdio::null());
    for name in ["DISTLOCK_URL", "DISTLOCK_PREFIX", "DISTLOCK_NAME", "DISTLOCK_WEB_TOKEN"] {
        command.env_remove(name);
    }
    command
}

/// A process that is killed when dropped.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `distlock web`, killed when dropped.
pub(crate) struct Page {
    /// What it prints.
    pub(crate) url: String,
    address: SocketAddr,
    _process: Killed,
}

impl Page {
    pub(crate) fn serve(store: &RedisServer, arguments: &[&str]) -> Self {
        let mut command = distlock(store, &["web", "--listen", "127.0.0.1:0"]);
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let process = Killed(process);
        let url = url.trim().to_owned();
        let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let address = address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{url}"));
        Page { url, address, _process: process }
    }

    fn host(&self) -> String {
        format!("host: {}", self.address)
    }

    fn get(&self, path: &str) -> crate::http::Answer {
        send(self.address, &format!("GET {path}"), &[&self.host()], "")
    }

    fn release(&self, key: &str, authorization: &str) -> u16 {
        let body = serde_json::json!({ "key": key }).to_string();
        let headers = [&*self.host(), "content-type: application/json", authorization];
        send(self.address, "POST /release", &headers, &body).status
    }

    /// The first thing that a page is told.
    fn first_event(&self, header: &str) -> Value {
        let stream = open(self.address, "GET /events", &[&self.host(), header], "");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("it goes on"));
        let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).next();
        serde_json::from_str(&data.expect("an event")).expect("JSON")
    }
}

#[test]
fn every_response_is_strict_about_what_a_browser_may_do_with_it() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    for (path, kind) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")] {
        let answer = page.get(path);
        assert_eq!(answer.status, 200);
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{}", answer.head);
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{header}: {}", answer.head);
        }
        assert!(!answer.body.contains("innerHTML") && !answer.body.contains("<script>"), "{path}");
    }
    assert_eq!(page.get("/other").status, 404);
}

/// A site whose name leads to this address sends that name.
#[test]
fn other_names_are_refused_on_every_path() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &["--host", "locks.example"]);
    for path in ["GET /", "GET /events", "GET /page.js", "POST /release", "GET /nothing"] {
        for host in ["host: evil.example", "host: 127.0.0.1.evil.example:80", "x-no: host"] {
            let answer = send(page.address, path, &[host], "");
            assert!([400, 421].contains(&answer.status), "{path} {host}: {}", answer.status);
            assert!(!answer.body.contains("distlock</title>"), "{}", answer.body);
        }
    }
    assert_eq!(send(page.address, "GET /", &["host: Locks.example:443"], "").status, 200);
}

#[test]
fn without_a_token_it_shows_and_changes_nothing() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let manager = LockManager::connect(store.url()).unwrap();
    let guard = manager.lock("order:42").label("order").acquire().unwrap();
    let told = page.first_event("accept: text/event-stream");
    assert_eq!(told["writable"], false);
    assert_eq!(told["locks"][0]["key"], "order:42");
    assert_eq!(told["locks"][0]["holders"][0]["label"], "order");
    assert_eq!(page.release("order:42", "x-nothing: 1"), 403);
    assert_eq!(page.release("order:42", &format!("authorization: Bearer {TOKEN}")), 403);
    assert!(guard.is_held());
}

#[test]
fn with_a_token_nothing_is_shown_or_changed_without_it() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &["--token", TOKEN]);
    assert!(page.url.ends_with(&format!("/#token={TOKEN}")), "{}", page.url);
    let manager = LockManager::connect(store.url()).unwrap();
    let guard = manager.lock("order:42").acquire().unwrap();
    let (right, wrong) = (format!("authorization: Bearer {TOKEN}"), "authorization: Bearer x");
    let refused = send(page.address, "GET /events", &[&page.host(), wrong], "");
    assert_eq!(refused.status, 401);
    assert!(!refused.body.contains("order:42"));
    assert_eq!(page.release("order:42", wrong), 401);
    assert!(guard.is_held());
    assert_eq!(page.first_event(&right)["writable"], true);
    assert_eq!(page.release("order:42", &right), 200);
    distlock_fixtures::eventually_blocking("it is lost", || !guard.is_held());
    assert_eq!(page.release("order:42", &right), 404);
    assert_eq!(page.release("", &right), 400);
}

#[test]
fn it_says_when_the_store_cannot_be_reached() {
    let mut store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    store.kill9();
    let told = page.first_event("accept: text/event-stream");
    assert!(told["notes"][0].as_str().is_some_and(|note| note.contains("unavailable")), "{told}");
}

#[test]
fn other_machines_are_not_let_in_without_a_token() {
    let store = RedisServer::start();
    let output = distlock(&store, &["web", "--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--token"));
}
