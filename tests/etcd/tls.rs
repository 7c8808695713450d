//! TLS: the client verifies the servers, and the servers verify the client.

use distlock::{LockError, LockManager};
use distlock_fixtures::TlsFiles;
use distlock_tests::EtcdServers;

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_verified_and_verify_their_clients() {
    let tls_files = TlsFiles::make();
    let file = |name| tls_files.path(name);
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
