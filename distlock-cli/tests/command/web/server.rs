//! The responses of the server, without a browser.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use distlock::blocking::LockManager;
use distlock_fixtures::eventually_blocking;
use distlock_tests::RedisServer;
use serde_json::Value;

use crate::web::http::{open, send};

pub(crate) const TOKEN: &str = "0123456789abcdef0123";
/// A lease that is renewed soon.
pub(crate) const SHORT_TTL: Duration = Duration::from_secs(6);

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
    /// The address for a browser: the printed address with the token.
    pub(crate) url: String,
    pub(crate) address: SocketAddr,
    _process: Killed,
}

impl Page {
    pub(crate) fn serve(store: &RedisServer, arguments: &[&str]) -> Self {
        let mut command = distlock(store, &["web", "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let process = Killed(process);
        let url = url.trim().to_owned();
        let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next());
        let address = address.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{url}"));
        let url = url.replace('…', TOKEN);
        Page { url, address, _process: process }
    }

    pub(crate) fn host(&self) -> String {
        format!("host: {}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self._process.0.id()
    }

    fn get(&self, path: &str) -> crate::web::http::Answer {
        send(self.address, &format!("GET {path}"), &[&self.host()], "")
    }

    fn release(&self, key: &str, owner: &str, authorization: &str) -> u16 {
        let body = serde_json::json!({ "key": key, "owners": [owner] }).to_string();
        let headers = [&*self.host(), "content-type: application/json", authorization];
        send(self.address, "POST /release", &headers, &body).status
    }

    /// The first event for a page.
    pub(crate) fn first_event(&self, header: &str) -> Value {
        self.first_event_of("/events", header)
    }

    pub(crate) fn first_event_of(&self, path: &str, header: &str) -> Value {
        self.events(path, header).next().expect("an event")
    }

    fn events(&self, path: &str, header: &str) -> impl Iterator<Item = Value> {
        let stream = open(self.address, &format!("GET {path}"), &[&self.host(), header], "");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("it goes on"));
        let data = lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        data.map(|data| serde_json::from_str(&data).expect("JSON"))
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

/// Requests from a site whose name resolves to this address contain that name.
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

/// Without its password, wherever the URL comes from.
#[test]
fn the_page_says_which_store_it_shows() {
    let store = RedisServer::options().password("secret").start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("url");
    let url = format!("redis://:secret@{}/", store.address());
    std::fs::write(&file, &url).unwrap();
    let file = file.to_str().unwrap();
    for (option, variable) in [
        (Some("--url"), None),
        (Some("--url-file"), None),
        (None, Some("DISTLOCK_URL")),
        (None, Some("DISTLOCK_URL_FILE")),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command.env_remove("DISTLOCK_URL").env_remove("DISTLOCK_URL_FILE").env_remove("DISTLOCK_PREFIX");
        let name = option.or(variable).unwrap_or_default();
        let value = if name.to_lowercase().ends_with("file") { file } else { &*url };
        match option {
            Some(option) => command.args([option, value]),
            None => command.env(name, value),
        };
        command.args(["web", "--listen", "127.0.0.1:0"]).stdin(Stdio::null());
        let told = Page::start(command).first_event("accept: text/event-stream");
        assert_eq!(told["store"], format!("redis://{}/", store.address()), "{name}");
    }
}

#[test]
fn without_a_token_it_shows_and_changes_nothing() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let manager = LockManager::connect(store.url()).unwrap();
    let guard = manager.lock("order:42").label("order").ttl(SHORT_TTL).acquire().unwrap();
    // Its label is written when it is renewed.
    eventually_blocking("it is shown with its label", || {
        let told = page.first_event("accept: text/event-stream");
        assert_eq!(told["writable"], false);
        assert_eq!(told["locks"][0]["key"], "order:42");
        told["locks"][0]["holders"][0]["label"] == "order"
    });
    assert_eq!(page.release("order:42", &guard.owner(), "x-nothing: 1"), 403);
    assert_eq!(page.release("order:42", &guard.owner(), &format!("authorization: Bearer {TOKEN}")), 403);
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
    let owner = guard.owner();
    assert_eq!(page.release("order:42", &owner, wrong), 401);
    assert!(guard.is_held());
    assert_eq!(page.release("order:42", &owner, &right), 404, "no page has shown it");
    let mut events = page.events("/events", &right);
    assert_eq!(events.next().expect("an event")["writable"], true);
    assert_eq!(page.release("order:42", &owner, &right), 200);
    distlock_fixtures::eventually_blocking("it is lost", || !guard.is_held());
    assert_eq!(page.release("order:42", &owner, &right), 404);
    assert_eq!(page.release("", &owner, &right), 404);
}

/// The lock may have passed to another holder before the user clicks the button.
#[test]
fn a_lock_is_released_from_the_holders_that_were_shown_and_from_no_others() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &["--token", TOKEN]);
    let manager = LockManager::connect(store.url()).unwrap();
    let right = format!("authorization: Bearer {TOKEN}");
    let shown = manager.lock("order:42").acquire().unwrap().owner();
    let next = manager.lock("order:42").acquire().unwrap();
    let mut events = page.events("/events", &right);
    assert_eq!(events.next().expect("an event")["locks"][0]["key"], "order:42");
    assert_eq!(page.release("order:42", &shown, &right), 409);
    let headers = [&*page.host(), "content-type: application/json", &*right];
    let nobody = send(page.address, "POST /release", &headers, "{\"key\": \"order:42\"}");
    assert_eq!(nobody.status, 400, "{}", nobody.body);
    assert!(next.is_held());
    next.release().unwrap();
}

#[test]
fn it_says_when_the_store_cannot_be_reached() {
    let mut store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    store.kill9();
    // The first look may be in progress on the old connection, and fail with it. The next one must connect.
    for told in page.events("/events", "accept: text/event-stream") {
        assert_eq!(told["trouble"]["unreachable"], true, "{told}");
        assert_eq!((&told["looked"], &told["locks"]), (&Value::Null, &serde_json::json!([])), "{told}");
        let error = told["trouble"]["error"].as_str().expect("it is in trouble");
        if error.contains("cannot connect") {
            return;
        }
        assert!(error.contains("the connection to the server broke"), "{told}");
    }
    panic!("the page has ended");
}

/// A page of another site can send requests, but cannot read the responses.
#[test]
fn pages_of_other_sites_take_up_no_place() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &["--token", TOKEN]);
    let token = format!("authorization: Bearer {TOKEN}");
    for site in ["cross-site", "same-site"] {
        let (site, origin) = (format!("sec-fetch-site: {site}"), "origin: https://evil.example");
        for path in ["GET /events", "POST /release", "GET /page.js"] {
            let answer = send(page.address, path, &[&page.host(), &token, &site, origin], "");
            assert_eq!(answer.status, 403, "{path}");
        }
        assert_eq!(send(page.address, "GET /", &[&page.host(), &site], "").status, 200, "a link to the page");
    }
    assert_eq!(page.first_event(&format!("{token}\r\nsec-fetch-site: same-origin"))["writable"], true);
}

/// More connections than the server keeps open, and none of them sends a whole request.
#[test]
fn half_requests_do_not_exhaust_it() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let half = |_| {
        let mut stream = std::net::TcpStream::connect(page.address).expect("it listens");
        stream.write_all(b"GET / HTTP/1.1\r\nhost: loc").expect("there is room");
        stream
    };
    let halves: Vec<_> = (0..200).map(half).collect();
    assert_eq!(page.get("/").status, 200);
    for mut stream in halves {
        stream.set_read_timeout(Some(distlock_tests::BOUND)).unwrap();
        let reset = |error: std::io::Error| error.kind() == ErrorKind::ConnectionReset;
        assert!(stream.read(&mut [0; 1024]).map_or_else(reset, |_| true), "it is closed");
    }
}

#[test]
fn a_token_is_not_printed_and_may_stand_in_a_file() {
    let store = RedisServer::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let mut command = distlock(&store, &["web", "--listen", "127.0.0.1:0", "--token-file"]);
    let mut process = Killed(command.arg(&file).stdout(Stdio::piped()).spawn().unwrap());
    let mut printed = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut printed).unwrap();
    assert!(printed.ends_with("/#token=…\n"), "{printed}");
    let address = printed.trim_start_matches("http://").split('/').next().unwrap().parse().unwrap();
    let host = format!("host: {address}");
    let release = |header: &str| {
        send(address, "POST /release", &[&host, header], "{\"key\":\"k\",\"owners\":[\"x\"]}").status
    };
    assert_eq!(release("authorization: Bearer x"), 401);
    assert_eq!(release(&format!("authorization: Bearer {TOKEN}")), 404, "nobody holds it");
    let missing = distlock(&store, &["web", "--token-file", "/nonexistent"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent"));
}

/// Five hundred locks are shown. The lock with a waiter is among them, and a filter finds every lock.
#[test]
fn of_many_locks_those_that_matter_are_shown_and_the_filter_finds_the_others() {
    let store = RedisServer::start();
    let page = Page::serve(&store, &[]);
    let manager = LockManager::connect(store.url()).unwrap();
    // The age of a lock is known after its lease was renewed.
    let hold = |key: String| manager.lock(key).ttl(Duration::from_secs(6)).acquire().unwrap();
    let _oldest = hold("zz:oldest".to_owned());
    let orders: Vec<String> = (0..600).map(|number| format!("order:{number:05}")).collect();
    let _orders: Vec<_> = orders.iter().cloned().map(hold).collect();
    let _report = hold("zz:report".to_owned());
    let mut waiter = distlock(&store, &["run", "--key", "zz:report", "--wait", "forever", "--", "true"]);
    let _waiter = Killed(waiter.spawn().unwrap());
    distlock_fixtures::eventually_blocking("it is awaited", || page.first_event("x-a: b")["awaited"] == 1);
    let keys = |told: &Value| -> Vec<String> {
        let locks = told["locks"].as_array().unwrap();
        locks.iter().map(|lock| lock["key"].as_str().unwrap().to_owned()).collect()
    };
    let mut told = Value::Null;
    distlock_fixtures::eventually_blocking(
        "it is shown, although it stands behind 600 others by its key",
        || {
            told = page.first_event("x-a: b");
            keys(&told).iter().any(|key| key == "zz:oldest")
        },
    );
    let shown = keys(&told);
    assert_eq!((&told["held"], &told["more"], shown.len()), (&602.into(), &102.into(), 500));
    assert_eq!(shown[0], "zz:report");
    let hidden = orders.iter().find(|key| !shown.contains(key)).unwrap();
    let told = page.first_event_of(&format!("/events?filter={}", hidden.replace(':', "%3A")), "x-a: b");
    assert_eq!((&told["held"], &told["more"], &keys(&told)), (&602.into(), &0.into(), &vec![hidden.clone()]));
}

#[test]
fn other_machines_are_not_let_in_without_a_token() {
    let store = RedisServer::start();
    let output = distlock(&store, &["web", "--listen", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--token"));
}
