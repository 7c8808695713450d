//! Certificates for tests, and servers that use them.

use std::fs;
use std::process::Command;

use distlock_fixtures::{Directory, RedisServer};

use super::test_server::TestServer;

/// A directory with `ca`, `server`, `client` and `other` (not of this authority): each a `.pem` and a `.key`.
pub(super) struct TlsFiles(Directory);

impl TlsFiles {
    pub(super) fn issue() -> TlsFiles {
        let tls_files = TlsFiles(Directory::new("tls"));
        for authority in ["ca", "other"] {
            tls_files.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=distlock-{authority} \
                 -keyout {authority}.key -out {authority}.pem"
            ));
        }
        for name in ["server", "client"] {
            tls_files.certify(name, "ca", "DNS:localhost,IP:127.0.0.1");
        }
        tls_files
    }

    /// Writes `name.pem` and `name.key`, certified by `authority` for `names`, over the existing files.
    pub(super) fn certify(&self, name: &str, authority: &str, names: &str) {
        self.write("names", &format!("subjectAltName={names}\n"));
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
        self.0.write(name, text);
    }

    fn openssl(&self, words: &str) {
        let mut command = Command::new("openssl");
        command.args(words.split_whitespace());
        self.0.run(&mut command, "Install it with `apt-get install openssl`");
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A server that speaks TLS on the port returned, and plainly to the test.
    pub(super) fn serve(&self, auth_clients: &str) -> (TestServer, u16) {
        let server = RedisServer::options().tls(&self.directives(auth_clients)).start();
        let port = server.tls_port();
        (server.into(), port)
    }

    /// The configuration of a server that shows `server.pem`.
    pub(super) fn directives(&self, auth_clients: &str) -> Vec<String> {
        let files = [("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")];
        let mut lines: Vec<String> =
            files.map(|(what, file)| format!("tls-{what}-file {}", self.path(file))).into();
        lines.push(format!("tls-auth-clients {auth_clients}"));
        lines
    }

    /// The parameters of a URL for a client that has `client.pem` to show.
    pub(super) fn files(&self) -> String {
        let (ca, cert, key) = (self.path("ca.pem"), self.path("client.pem"), self.path("client.key"));
        format!("ca={ca}&cert={cert}&key={key}")
    }
}
