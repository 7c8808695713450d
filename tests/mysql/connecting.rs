//! Wrong URLs, servers and logins: each has its own error with a remedy.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_fixtures::MariaDbServer;

use crate::each_store::{SECRET, manager, objection, refusal};

#[tokio::test]
async fn a_wrong_url_is_refused_with_the_reason_and_without_its_password() {
    for (url, reason) in [
        ("mysql://u:s3cret@h:port/db", "port"),
        ("mysql://u:s3cret@h", "names no database"),
        ("mysql://u:s3cret@h/a/b", "names no database"),
        ("mysql://u:s3cret@/db", "names no host"),
        ("mysql://u:s3cret@h/db?conections=2", "did you mean `connections`?"),
        ("mysql://u:s3cret@h/db?connections=0", "from 1 to 64"),
        ("mysql://u:s3cret@h/db?table_prefix=a.b", "`table_prefix=` is made of"),
        ("mysql://u:s3cret@h/db?ssl-mode=REQUIRED", "`sslmode=require`"),
        ("mysql://u:s3cret@h/db?sslmode=prefer", "verify-full"),
        ("mysql://u:s3cret@h/db?sslmode=require&sslrootcert=/nowhere.pem", "/nowhere.pem"),
        ("mysql://u:s3cret@h/db?sslrootcert=/nowhere.pem", "`sslmode=require`"),
        ("mysql://u:s3cret@h/db?sslmode=require&ca=/nowhere.pem", "/nowhere.pem"),
        ("mysql://u:s3cret@h/db?ca=/nowhere.pem", "`sslmode=require`"),
        ("mysql://u:s3cret@h/db?sslmode=require&sslcert=/nowhere.pem", "`key=`"),
        ("mysql://u:s3cret@h/db?sslmode=require&ca=/a.pem&sslrootcert=/b.pem", "keep one"),
        ("mysql://u:s3cret@h/db?sslmode=require&ca=/a.pem&roots=system", "exclude each other"),
        ("mysql://u:s3cret@h/db?response_timeout=5s", "4s"),
        ("mysql://u:s3cret@h/db?connect_timeout=soon", "`connect_timeout=`"),
        ("mysql://u:a?s3cret@h/db", "%3F"),
        ("mariadb://h/db?Quorum=s3cret", "unknown parameter"),
    ] {
        let text = objection(url);
        assert!(text.contains(reason), "{url}: {text}");
    }
}

#[tokio::test]
async fn a_manager_shows_where_it_is_and_nothing_secret() {
    let url = "mariadb://u:s3cret@one,two:6000/db?sslmode=require&table_prefix=here_";
    let manager = LockManager::builder().url(url).connect_lazy().unwrap();
    let error = manager.lock("k").try_acquire().await.unwrap_err();
    let text = format!("{manager:?} {error} {error:?}");
    assert!(!text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn a_wrong_password_and_a_wrong_database_fail_at_once() {
    let server = MariaDbServer::shared();
    server.run(&format!("CREATE USER picky IDENTIFIED BY '{SECRET}'")).await;
    let start = Instant::now();
    for (url, reason) in [
        (server.url_as("picky", "wr0ng"), "check the user and the password"),
        (server.url_as("nobody_here", "wr0ng"), "check the user and the password"),
        (server.url_as("picky", SECRET), "check the database"),
        (server.url().replace("/locks", "/nowhere"), "check the database"),
    ] {
        let error = refusal(&url).await;
        assert!(error.is_unavailable(), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(reason) && !text.contains("wr0ng") && !text.contains(SECRET), "{url}: {text}");
    }
    assert!(start.elapsed() < Duration::from_secs(16), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_where_tls_is_wanted() {
    let server = MariaDbServer::shared();
    let error = refusal(&format!("{}?sslmode=require", server.url())).await;
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
}

#[tokio::test]
async fn credentials_of_the_builder_are_shown_instead_of_those_in_the_url() {
    let server = MariaDbServer::shared();
    server.run(&format!("CREATE USER given IDENTIFIED BY '{SECRET}'; GRANT ALL ON locks.* TO given")).await;
    let builder = LockManager::builder()
        .url(server.url_as("other", "wr0ng"))
        .credentials(|| async { Ok::<_, std::io::Error>(distlock::Credentials::new("given", SECRET)) });
    let manager = builder.connect().await.unwrap();
    manager.lock("given").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_replica_is_told_from_a_server_that_can_be_written_to() {
    let (replica, primary) = (MariaDbServer::start(), MariaDbServer::start());
    let both = format!("mysql://root@{},{}/locks", replica.address(), primary.address());
    let manager = LockManager::connect(&both).await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    replica.run("SET GLOBAL read_only = 1").await;
    let error = refusal(&replica.url()).await;
    assert!(error.is_unavailable() && error.to_string().contains("host1,host2"), "{error}");
    // The manager that was connected does the same when its server refuses writes.
    drop(manager);
    let manager = crate::each_store::manager(&both).await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(primary.number("SELECT COUNT(*) FROM distlock_lock_1").await, 1);
}

#[tokio::test]
async fn a_server_that_logs_statements_is_refused_with_what_to_set() {
    let server = MariaDbServer::with(&["--log-bin=log", "--server-id=1", "--binlog-format=STATEMENT"]);
    let manager = LockManager::connect(&server.url()).await;
    let error = match manager {
        Ok(manager) => manager.lock("k").acquire().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("binlog_format"), "{error}");
    server.run("SET GLOBAL binlog_format = MIXED").await;
    manager_works(&server.url()).await;
}

#[tokio::test]
async fn a_server_that_does_not_commit_by_itself_is_used_all_the_same() {
    let server = MariaDbServer::with(&["--autocommit=0", "--transaction-isolation=SERIALIZABLE"]);
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let guard = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let next = other.lock("k").try_acquire().await.unwrap();
    next.expect("it is free").release().await.unwrap();
}

async fn manager_works(url: &str) {
    let manager = manager(url).await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}
