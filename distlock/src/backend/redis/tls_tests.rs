//! TLS, with an authority and certificates of our own, held against a real server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::{EnterMode, Failure, Kind, Op, Push, Pushes, Reply, ServerTime, Token};
use super::RedisConfig;
use super::test_server::{Rig, TestServer, free_port};

const TTL: Duration = Duration::from_secs(10);

/// A directory with `ca`, `server`, `client` and `other` (not of this authority): each a `.pem` and a `.key`.
struct Papers(PathBuf);

impl Papers {
    fn issue() -> Papers {
        let dir = std::env::temp_dir().join(format!("distlock-tls-{}-{}", std::process::id(), free_port()));
        fs::create_dir_all(&dir).unwrap();
        let papers = Papers(dir);
        for authority in ["ca", "other"] {
            papers.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=distlock-{authority} \
                 -keyout {authority}.key -out {authority}.pem"
            ));
        }
        fs::write(papers.0.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        for name in ["server", "client"] {
            papers.openssl(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
            ));
            papers.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
            ));
        }
        papers
    }

    fn openssl(&self, words: &str) {
        let status = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(&self.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("these tests need `openssl` on the PATH: install the package openssl");
        assert!(status.success(), "openssl {words}");
    }

    fn path(&self, name: &str) -> String {
        Path::new(&self.0).join(name).to_str().unwrap().to_owned()
    }

    /// A server that speaks TLS on the port returned, and plainly to the test.
    fn serve(&self, auth_clients: &str) -> (TestServer, u16) {
        let port = free_port();
        let (cert, key, ca) = (self.path("server.pem"), self.path("server.key"), self.path("ca.pem"));
        let args = ["--tls-port", &port.to_string(), "--tls-cert-file", &cert, "--tls-key-file", &key];
        let more = ["--tls-ca-cert-file", &ca, "--tls-auth-clients", auth_clients];
        (TestServer::start(&[&args[..], &more[..]].concat()), port)
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn rig(url: &str, client: &str) -> Rig {
    Rig::start(RedisConfig::new(url, client).unwrap())
}

#[test]
fn with_an_authority_and_a_certificate_of_our_own_locks_and_pushes_work() {
    let papers = Papers::issue();
    let (server, port) = papers.serve("yes");
    let files = format!(
        "ca={}&cert={}&key={}",
        papers.path("ca.pem"),
        papers.path("client.pem"),
        papers.path("client.key")
    );
    let (a, b) = (
        rig(&format!("rediss://localhost:{port}/?{files}"), "a"),
        rig(&format!("rediss://127.0.0.1:{port}?{files}"), "b"),
    );
    for rig in [&a, &b] {
        assert_eq!(rig.wait_until_up(), (true, Pushes::On));
    }
    let enter = |token| Op::Enter {
        token: Token(token),
        kind: Kind::Exclusive,
        ttl: TTL,
        claim: Duration::from_secs(3),
        mode: EnterMode::Wait,
        fences: 0,
    };
    assert!(matches!(a.send("k", enter(1)), Ok(Reply::Fresh { .. })));
    assert!(matches!(b.send("k", enter(2)), Ok(Reply::Busy { .. })));
    let leave = Op::Leave { token: Token(1), hold: None, since: ServerTime(0) };
    a.send("k", leave).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    // A link that breaks is replaced here too.
    for id in server.client_ids(|line| line.contains("name=b ")) {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    b.wait_for_down();
    assert!(b.wait_until_up().0, "settled");
}

#[test]
fn a_server_that_cannot_be_verified_is_not_talked_to() {
    let papers = Papers::issue();
    let (_server, port) = papers.serve("no");
    for url in [
        format!("rediss://localhost:{port}/"),
        format!("rediss://localhost:{port}/?ca={}", papers.path("other.pem")),
    ] {
        let cause = rig(&url, "a").wait_for_down();
        assert_eq!(cause.kind, Failure::NotSent);
        assert!(cause.to_string().to_lowercase().contains("certificate"), "{cause}");
    }
    rig(&format!("rediss://localhost:{port}/?ca={}", papers.path("ca.pem")), "a").wait_until_up();
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_one_or_no_link() {
    let papers = Papers::issue();
    let (_server, port) = papers.serve("yes");
    let rig = rig(&format!("rediss://localhost:{port}/?ca={}", papers.path("ca.pem")), "a");
    rig.wait_for_down();
}
