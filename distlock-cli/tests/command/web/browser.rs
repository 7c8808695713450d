//! A headless Chromium, controlled over the WebDriver protocol.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use distlock_fixtures::{Directory, ServerProcess, eventually_blocking, free_port, start_on_free_ports};
use serde_json::{Value, json};

use crate::web::http::send;

const REMEDY: &str = "Install it with `apt-get install chromium chromium-driver`";

/// A browser with one window.
pub(crate) struct Browser {
    address: SocketAddr,
    session: String,
    _driver: ServerProcess,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let (address, driver) = start_on_free_ports(|| {
            let port = free_port();
            let mut command = Command::new("chromedriver");
            command.arg(format!("--port={port}"));
            let ready = |_pid| TcpStream::connect(("127.0.0.1", port)).is_ok();
            let driver = ServerProcess::start(Directory::new("browser"), command, REMEDY, ready)?;
            Ok((SocketAddr::from(([127, 0, 0, 1], port)), driver))
        });
        let profile = driver.directory().join("profile");
        // Without its sandbox, which does not work in a container. The browser opens only the page of this server.
        let arguments = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--window-size=1280,800",
            format!("--user-data-dir={}", profile.display()),
        ]);
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "unhandledPromptBehavior": "ignore",
        } } });
        let mut browser = Browser { address, session: String::new(), _driver: driver };
        let made = browser.call("POST", "/session", &wanted);
        browser.session = made["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let host = format!("host: {}", self.address);
        let headers = [&*host, "content-type: application/json"];
        let answer = send(self.address, &format!("{method} {path}"), &headers, &body);
        let value: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(answer.status, 200, "{path}: {value}");
        value["value"].clone()
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.session), body)
    }

    pub(crate) fn go(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub(crate) fn eval(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    pub(crate) fn text(&self, expression: &str) -> String {
        self.eval(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn until(&self, what: &str, expression: &str) {
        eventually_blocking(what, || self.eval(expression) == Value::Bool(true));
    }

    /// Sets the size of the window, and the light or dark scheme.
    pub(crate) fn look(&self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.developer("Emulation.setDeviceMetricsOverride", &size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.developer("Emulation.setEmulatedMedia", &features);
    }

    fn developer(&self, command: &str, parameters: &Value) {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    /// A picture of the window, as PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        from_base64(self.command("GET", "/screenshot", &Value::Null).as_str().expect("a picture"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.command("DELETE", "", &json!({}));
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let word =
            four.iter().fold(0_u32, |word, digit| (word << 6) | u32::from(*digit)) << (6 * (4 - four.len()));
        word.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}
