//! TLS: the servers are verified, and verify their clients.

use std::path::Path;
use std::process::{Command, Stdio};

use distlock::{LockError, LockManager};
use distlock_tests::EtcdServers;

/// `ca`, `server` and `client`, certified by it, and `other`, which is another authority; each a `.pem` and a `.key`.
fn papers() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("distlock-papers-").tempdir().unwrap();
    let openssl = |words: &str| {
        let status = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(&directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("these tests need `openssl` on the PATH: install the package openssl");
        assert!(status.success(), "openssl {words}");
    };
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for name in ["ca", "other"] {
        openssl(&format!("req -x509 {new} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"));
    }
    std::fs::write(directory.path().join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    for name in ["server", "client"] {
        openssl(&format!("req {new} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem"
        ));
    }
    directory
}

fn path(papers: &Path, name: &str) -> String {
    papers.join(name).to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_verified_and_verify_their_clients() {
    let papers = papers();
    let file = |name| path(papers.path(), name);
    let servers =
        EtcdServers::over_tls(&file("server.pem"), &file("server.key"), &file("ca.pem"), &file("client"));
    let (address, ca, cert, key) =
        (servers.address(0), file("ca.pem"), file("client.pem"), file("client.key"));
    let manager =
        LockManager::connect(&format!("etcds://{address}?ca={ca}&cert={cert}&key={key}")).await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    servers.has_no_locks("distlock/");

    let other = file("other.pem");
    for (url, what) in [
        (format!("etcds://{address}?ca={other}&cert={cert}&key={key}"), "an authority that we do not trust"),
        (format!("etcds://{address}?cert={cert}&key={key}"), "the authorities of the web"),
        (format!("etcds://{address}?ca={ca}"), "a client without a certificate"),
        (format!("etcds://{address}?ca={ca}&cert={cert}&key={key}&tls_name=elsewhere"), "another name"),
        (format!("etcd://{address}"), "no TLS"),
    ] {
        let error = LockManager::connect(&url).await.map(drop).unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{what}: {error:?}");
        assert!(error.to_string().contains(&address), "{what}: {error}");
    }
}
