//! Certificates of our own, and servers that use them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::test_server::{TestServer, free_port};

/// A directory with `ca`, `server`, `client` and `other` (not of this authority): each a `.pem` and a `.key`.
pub(super) struct Papers(PathBuf);

impl Papers {
    pub(super) fn issue() -> Papers {
        let dir = std::env::temp_dir().join(format!("distlock-tls-{}-{}", std::process::id(), free_port()));
        fs::create_dir_all(&dir).unwrap();
        let papers = Papers(dir);
        for authority in ["ca", "other"] {
            papers.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=distlock-{authority} \
                 -keyout {authority}.key -out {authority}.pem"
            ));
        }
        for name in ["server", "client"] {
            papers.certify(name, "ca", "DNS:localhost,IP:127.0.0.1");
        }
        papers
    }

    /// Makes `name.pem` and `name.key`, certified by `authority` for `names`; in place of what was there.
    pub(super) fn certify(&self, name: &str, authority: &str, names: &str) {
        fs::write(self.0.join("names"), format!("subjectAltName={names}\n")).unwrap();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2 \
             -extfile names -out {name}.pem"
        ));
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
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

    pub(super) fn path(&self, name: &str) -> String {
        Path::new(&self.0).join(name).to_str().unwrap().to_owned()
    }

    /// A server that speaks TLS on the port returned, and plainly to the test.
    pub(super) fn serve(&self, auth_clients: &str) -> (TestServer, u16) {
        let port = free_port();
        let mut args = self.options(auth_clients);
        args.extend(["--tls-port".to_owned(), port.to_string()]);
        (TestServer::start(&args.iter().map(String::as_str).collect::<Vec<_>>()), port)
    }

    /// Options and values of a server that shows `server.pem`.
    pub(super) fn options(&self, auth_clients: &str) -> Vec<String> {
        let file = |name| self.path(name);
        let options = [
            ("--tls-cert-file", file("server.pem")),
            ("--tls-key-file", file("server.key")),
            ("--tls-ca-cert-file", file("ca.pem")),
            ("--tls-auth-clients", auth_clients.to_owned()),
        ];
        options.into_iter().flat_map(|(option, value)| [option.to_owned(), value]).collect()
    }

    /// The parameters of a URL for a client that has `client.pem` to show.
    pub(super) fn files(&self) -> String {
        let (ca, cert, key) = (self.path("ca.pem"), self.path("client.pem"), self.path("client.key"));
        format!("ca={ca}&cert={cert}&key={key}")
    }
}

impl Drop for Papers {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}
