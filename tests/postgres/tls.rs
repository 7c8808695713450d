//! TLS: clients verify servers, including their names, and servers may verify clients.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::{PostgresServer, TlsFiles};

use crate::each_store::{LONG, manager, objection, refusal};

async fn locks(url: &str) {
    let manager = LockManager::connect(url).await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
    // The connection that listens is encrypted, too. The second manager gets the lock by a notification.
    let guard = manager.lock("k").acquire().await.unwrap();
    let other = LockManager::connect(url).await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).acquire());
    distlock_tests::until_waiting(&manager, "k", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_with_its_name() {
    let tls_files = TlsFiles::make();
    let server = PostgresServer::over_tls(&tls_files, "named");
    let (ca, other) = (tls_files.path("ca.pem"), tls_files.path("other.pem"));
    let by_name = server.url().replace("127.0.0.1", "localhost");
    for words in ["require&ca", "verify-full&ca", "prefer&ca", "require&sslrootcert"] {
        locks(&format!("{by_name}?sslmode={words}={ca}")).await;
    }
    let named = format!("{}?sslmode=require&ca={ca}&tls_name=localhost", server.url());
    locks(&named).await;
    let encrypted = "SELECT count(*) FILTER (WHERE NOT s.ssl), count(*) FROM pg_stat_ssl s \
                     JOIN pg_stat_activity a USING (pid) WHERE a.application_name LIKE 'distlock%'";
    let manager = LockManager::connect(&format!("{by_name}?sslmode=require&ca={ca}")).await.unwrap();
    let rows = server.rows(encrypted).await;
    let (clear, all): (i64, i64) = (rows[0].get(0), rows[0].get(1));
    assert!(clear == 0 && all >= 2, "{clear} of {all} connections are in the clear");
    drop(manager);

    let (authority, host) = ("`ca=`", "the host in the URL");
    for (url, reason, remedy) in [
        (format!("{by_name}?sslmode=require&ca={other}"), "UnknownIssuer", authority),
        (format!("{by_name}?sslmode=require"), "UnknownIssuer", authority),
        (format!("{by_name}?sslmode=prefer"), "UnknownIssuer", authority),
        (format!("{}?sslmode=require&ca={ca}", server.url()), "not valid for name", host),
    ] {
        let error = refusal(&url).await;
        assert!(error.is_unavailable(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains(remedy), "{url}: {text}");
    }
}

/// The error for a requirement in `pg_hba.conf` names the option to write.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_want_tls_and_a_certificate() {
    let tls_files = TlsFiles::make();
    let server = PostgresServer::over_tls(&tls_files, "server");
    server.run("CREATE ROLE app LOGIN; GRANT CREATE ON DATABASE postgres TO app").await;
    server.let_in_first(
        "hostssl all app 127.0.0.1/32 trust clientcert=verify-ca\nhost all app 127.0.0.1/32 reject\n",
    );
    server.run("SELECT pg_reload_conf()").await;
    let (ca, cert, key) =
        (tls_files.path("ca.pem"), tls_files.path("client.pem"), tls_files.path("client.key"));
    let url = server.url_as("app", "");
    // The server reads the file again with a delay.
    distlock_tests::eventually("it wants TLS", async || LockManager::connect(&url).await.is_err()).await;
    let text = refusal(&url).await.to_string();
    assert!(text.contains("`sslmode=require`"), "{text}");
    let without = format!("{url}?sslmode=require&ca={ca}");
    let text = refusal(&without).await.to_string();
    assert!(text.contains("`cert=`"), "{text}");
    locks(&format!("{without}&cert={cert}&key={key}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_is_made_again_with_tls() {
    let tls_files = TlsFiles::make();
    let server = PostgresServer::over_tls(&tls_files, "server");
    let url = format!("{}?sslmode=verify-full&ca={}", server.url(), tls_files.path("ca.pem"));
    let manager = LockManager::connect(&url).await.unwrap();
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    distlock_tests::eventually("both connections are there", async || server.backends().await.len() >= 2)
        .await;
    assert!(server.terminate_clients().await > 0);
    let wait = Duration::from_secs(60);
    manager.lock("other").wait(wait).acquire().await.unwrap().release().await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// Certificates may be replaced while programs run. Each connection uses the present content of the files.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_replaced_is_shown_by_the_next_connection() {
    let tls_files = TlsFiles::make();
    let server = PostgresServer::over_tls(&tls_files, "server");
    let files = ["ca.pem", "client.pem", "client.key"].map(|name| tls_files.path(name));
    let url = format!("{}?sslmode=require&ca={}&cert={}&key={}", server.url(), files[0], files[1], files[2]);
    let manager = manager(&url).await;
    let shown = async || {
        let sql = "SELECT count(*) FILTER (WHERE s.client_dn = '/CN=client'), \
                   count(*) FILTER (WHERE s.client_dn = '/CN=named') \
                   FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name LIKE 'distlock%'";
        let rows = server.rows(sql).await;
        (rows[0].get::<_, i64>(0), rows[0].get::<_, i64>(1))
    };
    distlock_tests::eventually("both show the first one", async || matches!(shown().await, (2.., 0))).await;

    // In two steps. After the first step, the certificate does not match the key, and no connection succeeds.
    tls_files.replace("client.pem", "named.pem");
    distlock_tests::eventually("both connections are there", async || server.backends().await.len() >= 2)
        .await;
    assert!(server.terminate_clients().await > 0);
    let text = objection(&url);
    assert!(text.contains(&files[1]), "{text}");
    tls_files.replace("client.key", "named.key");
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    distlock_tests::eventually("both show the new one", async || matches!(shown().await, (0, 2..))).await;
}
