//! TLS: clients verify servers, including their names, and servers may verify clients.

use distlock::LockManager;
use distlock_fixtures::{MariaDbServer, TlsFiles};

use crate::each_store::{LONG, SECRET, manager, objection, refusal};

async fn locks(url: &str) {
    let manager = LockManager::connect(url).await.unwrap_or_else(|error| panic!("{url}: {error:?}"));
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_with_its_name() {
    let tls_files = TlsFiles::make();
    let server = MariaDbServer::over_tls(&tls_files, "named");
    let (ca, other) = (tls_files.path("ca.pem"), tls_files.path("other.pem"));
    let by_name = server.url().replace("127.0.0.1", "localhost");
    for words in ["require&ca", "verify-full&ca", "require&sslrootcert"] {
        locks(&format!("{by_name}?sslmode={words}={ca}")).await;
    }
    let named = format!("{}?sslmode=require&ca={ca}&tls_name=localhost", server.url());
    locks(&named).await;
    for (url, reason, remedy) in [
        (format!("{by_name}?sslmode=require&ca={other}"), "UnknownIssuer", "`ca=`"),
        (format!("{by_name}?sslmode=require"), "UnknownIssuer", "`ca=`"),
        (format!("{by_name}?sslmode=verify-full"), "UnknownIssuer", "`ca=`"),
        (format!("{}?sslmode=require&ca={ca}", server.url()), "not valid for name", "the host in the URL"),
    ] {
        let error = refusal(&url).await;
        assert!(error.is_unavailable(), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(reason) && text.contains(remedy), "{url}: {text}");
    }
}

/// The error for a missing requirement of the server names the option to write. If TLS is requested, nothing is sent
/// without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_want_tls_and_a_certificate() {
    let tls_files = TlsFiles::make();
    let server = MariaDbServer::over_tls(&tls_files, "server");
    let users = ["encrypted REQUIRE SSL", "certified REQUIRE X509"].map(|user| {
        let (name, requirement) = user.split_once(' ').unwrap();
        format!("CREATE USER {name} IDENTIFIED BY '{SECRET}' {requirement}; GRANT ALL ON locks.* TO {name}")
    });
    server.run(&users.join(";")).await;
    let (ca, cert, key) =
        (tls_files.path("ca.pem"), tls_files.path("client.pem"), tls_files.path("client.key"));
    let tls = |user: &str| format!("{}?sslmode=require&ca={ca}", server.url_as(user, SECRET));

    let text = refusal(&server.url_as("encrypted", SECRET)).await.to_string();
    assert!(text.contains("`sslmode=require`") && !text.contains(SECRET), "{text}");
    locks(&tls("encrypted")).await;
    let text = refusal(&tls("certified")).await.to_string();
    assert!(text.contains("`cert=`") && !text.contains(SECRET), "{text}");
    locks(&format!("{}&cert={cert}&key={key}", tls("certified"))).await;

    server.run("SET GLOBAL require_secure_transport = ON").await;
    let text = refusal(&server.url()).await.to_string();
    assert!(text.contains("`sslmode=require`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_is_made_again_with_tls() {
    let tls_files = TlsFiles::make();
    let server = MariaDbServer::over_tls(&tls_files, "server");
    let make = format!(
        "CREATE USER encrypted IDENTIFIED BY '{SECRET}' REQUIRE SSL; GRANT ALL ON locks.* TO encrypted"
    );
    server.run(&make).await;
    let url = server.url_as("encrypted", SECRET);
    let manager = manager(&format!("{url}?sslmode=verify-full&ca={}", tls_files.path("ca.pem"))).await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    assert!(server.kill_clients().await > 0);
    manager.lock("other").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// Certificates may be replaced while programs run. Each connection uses the present content of the files.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_replaced_is_shown_by_the_next_connection() {
    let tls_files = TlsFiles::make();
    let server = MariaDbServer::over_tls(&tls_files, "server");
    let make = format!("CREATE USER app IDENTIFIED BY '{SECRET}' REQUIRE SUBJECT '/CN=client'");
    server.run(&format!("{make}; GRANT ALL ON locks.* TO app")).await;
    let files = ["ca.pem", "client.pem", "client.key"].map(|name| tls_files.path(name));
    let url = server.url_as("app", SECRET);
    let url = format!("{url}?sslmode=require&ca={}&cert={}&key={}", files[0], files[1], files[2]);
    let manager = manager(&url).await;

    // From now on, the server requires another certificate. It is written in two steps. After the first step, the
    // certificate does not match the key, and no connection succeeds.
    server.run("ALTER USER app REQUIRE SUBJECT '/CN=named'").await;
    tls_files.replace("client.pem", "named.pem");
    assert!(server.kill_clients().await > 0);
    let text = objection(&url);
    assert!(text.contains(&files[1]), "{text}");
    tls_files.replace("client.key", "named.key");
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}
