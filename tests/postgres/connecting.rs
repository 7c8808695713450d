//! Wrong URLs, servers and logins: each has its own error with a remedy.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_fixtures::PostgresServer;

use crate::each_store::{SECRET, objection, refusal};
use crate::postgres::manager;

#[tokio::test]
async fn a_wrong_url_is_refused_with_the_reason_and_without_its_password() {
    for (url, reason) in [
        ("postgres://u:s3cret@h:port/db", "port"),
        ("postgres://u:s3cret@h/db?shema=x", "did you mean `schema`?"),
        ("postgres://u:s3cret@h/db?schema=a.b", "`schema=` is a name"),
        ("postgres://u:s3cret@h/db?schema=", "`schema=` in the URL has no value"),
        ("postgres://u:s3cret@h/db?connections=0", "from 1 to 32"),
        ("postgres://u:s3cret@h/db?synchronous_commit=maybe", "remote_apply"),
        ("postgres://u:s3cret@h/db?sslmode=allow", "verify-full"),
        ("postgres://u:s3cret@h/db?sslmode=require&sslrootcert=/nowhere.pem", "/nowhere.pem"),
        ("postgres://u:s3cret@h/db?sslrootcert=/nowhere.pem", "`sslmode=require`"),
        ("postgres://u:s3cret@h/db?sslmode=require&ca=/nowhere.pem", "/nowhere.pem"),
        ("postgres://u:s3cret@h/db?ca=/nowhere.pem", "`sslmode=require`"),
        ("postgres://u:s3cret@h/db?sslmode=require&sslcert=/nowhere.pem", "`key=`"),
        ("postgres://u:s3cret@h/db?sslmode=require&ca=/a.pem&sslrootcert=/b.pem", "keep one"),
        ("postgres://u:s3cret@h/db?sslmode=require&ca=/a.pem&roots=system", "exclude each other"),
        ("postgres://u:s3cret@h/db?listen=redis://u:s3cret@h", "`listen=`"),
        ("postgres://u:s3cret@h/db?response_timeout=5s", "between 10ms and 4s"),
        ("postgres://u:s3cret@h/db?connect_timeout=90", "between 10ms and 60s"),
        ("postgres://u:s3cret@h/db?connect_timeout=soon", "`connect_timeout=`"),
        ("postgres://u:a?s3cret@h/db", "%3F"),
        ("postgres:///db", "names no host"),
        ("postgresql://h/db?s3cret=1", "expected one of `schema`"),
    ] {
        let text = objection(url);
        assert!(text.contains(reason), "{url}: {text}");
    }
}

#[tokio::test]
async fn a_manager_shows_where_it_is_and_nothing_secret() {
    let url = "postgres://u:s3cret@one,two:6000/db?listen=postgres%3A%2F%2Fu%3As3cret%40h%2Fdb&schema=here";
    let manager = LockManager::builder().url(url).connect_lazy().unwrap();
    let text = format!("{manager:?}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let mut server = PostgresServer::start();
    server.kill9();
    let text = refusal(&server.url()).await.to_string();
    assert!(text.contains(&server.address()), "{text}");
}

/// It may be another kind of server, or one that hangs.
#[tokio::test]
async fn a_server_that_says_nothing_is_named() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let error = refusal(&format!("postgres://u:s3cret@{address}/db?connect_timeout=300ms")).await;
    assert!(error.is_unavailable(), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(
        text.contains(&address.to_string()) && text.contains("300ms") && !text.contains(SECRET),
        "{text}"
    );
}

#[tokio::test]
async fn a_wrong_password_and_a_wrong_database_fail_at_once() {
    let server = PostgresServer::start();
    server.make_role("picky", SECRET).await;
    let start = Instant::now();
    for (url, reason) in [
        (server.url_as("picky", "wr0ng"), "check the password"),
        (server.url_as("nobody_here", "wr0ng"), "check the user"),
        (server.url().replace("/postgres", "/nowhere"), "check the database"),
    ] {
        let error = refusal(&url).await;
        assert!(error.is_unavailable(), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(reason) && !text.contains("wr0ng") && !text.contains(SECRET), "{text}");
    }
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_where_tls_is_wanted() {
    let server = PostgresServer::shared();
    let error = refusal(&format!("{}?sslmode=require", server.url())).await;
    assert!(error.to_string().contains("TLS"), "{error}");
    // The client requests TLS first, and continues without TLS if the URL allows it.
    manager(&format!("{}?sslmode=prefer", server.url()), "distlock").await;
}

#[tokio::test]
async fn credentials_of_the_builder_are_shown_instead_of_those_in_the_url() {
    let server = PostgresServer::start();
    server.make_role("picky", SECRET).await;
    server.run("GRANT CREATE ON DATABASE postgres TO picky").await;
    let builder = LockManager::builder()
        .url(server.url_as("other", "wr0ng"))
        .credentials(|| async { Ok::<_, std::io::Error>(distlock::Credentials::new("picky", SECRET)) });
    let manager = builder.connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_standby_is_told_from_a_server_that_can_be_written_to() {
    let standby = PostgresServer::standby();
    let error = refusal(&standby.url()).await;
    assert!(error.is_unavailable() && error.to_string().contains("target_session_attrs"), "{error}");
    let primary = PostgresServer::start();
    let both = format!(
        "postgres://admin@{},{}/postgres?target_session_attrs=read-write",
        standby.address(),
        primary.address()
    );
    let manager = LockManager::builder().url(both).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

/// The remedy needs no administrator.
#[tokio::test]
async fn a_role_whose_transactions_are_isolated_otherwise_or_read_only_is_told_what_to_add_to_the_url() {
    let server = PostgresServer::start();
    for (role, setting) in [
        ("strict", "default_transaction_isolation = 'serializable'"),
        ("reader", "default_transaction_read_only = on"),
    ] {
        let make = format!("CREATE ROLE {role} LOGIN; GRANT CREATE ON DATABASE postgres TO {role}");
        server.run(&format!("{make}; ALTER ROLE {role} SET {setting}")).await;
        let url = server.url_as(role, "");
        let text = refusal(&url).await.to_string();
        assert!(text.contains("ALTER ROLE") && !text.contains("standby"), "{text}");
        let addition = text.split('`').find(|part| part.starts_with("options=")).expect("what to add");
        let manager = manager(&format!("{url}?{addition}"), role).await;
        manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    }
}

/// With this setting, a backslash in a literal has another meaning.
#[tokio::test]
async fn a_text_is_published_under_the_same_key_whatever_a_backslash_means() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let url = format!("{}?options=-c%20standard_conforming_strings%3Doff", server.url());
    let candidate = manager(&url, &schema).await.leader("office").value("10.0.0.7:80");
    candidate.run(async |_| ()).await.unwrap();
    let published =
        format!("SELECT FROM {schema}.holder_1 WHERE key = decode('ff', 'hex') || 'office'::bytea");
    assert_eq!(server.rows(&published).await.len(), 1);
}
