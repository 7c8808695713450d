//! Wrong URLs, servers and logins: each has its own error with a remedy.

use std::future::pending;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use distlock::{Credentials, LockError, LockManager};
use distlock_fixtures::MemcachedServer;

use crate::each_store::{SECRET, manager, objection, refusal};

#[tokio::test]
async fn a_wrong_url_is_refused_with_the_reason_and_without_its_password() {
    for (url, reason) in [
        ("memcached://u:s3cret@h:port", "port"),
        ("memcached://u:s3cret@", "names no host"),
        ("memcached://u:s3cret@one,two", "name one host"),
        ("memcached://u:s3cret@h/path", "has no path"),
        ("memcached://u:s3cret@h?timeout=3", "`response_timeout=1s`"),
        ("memcached://u:s3cret@h?response_timeout=5s", "4s"),
        ("memcached://h?Key=s3cret", "unknown parameter"),
    ] {
        let text = objection(url);
        assert!(text.contains(reason), "{url}: {text}");
    }
}

#[tokio::test]
async fn what_it_cannot_keep_is_refused_with_the_reason() {
    let manager = LockManager::builder().url("memcached://h").connect_lazy().unwrap();
    let long = "k".repeat(200);
    for (request, reason) in [
        (manager.lock("k").fenced(), "forgets every number"),
        (manager.lock("k").shared(), "one owner"),
        (manager.lock("k").max_holders(2), "one owner"),
        (manager.lock("k").ttl(Duration::from_secs(31 * 24 * 3600)).no_renew(), "at most"),
    ] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    // Or when the program starts, if it requires it.
    let error =
        LockManager::builder().url("memcached://h").require_fencing_tokens().connect_lazy().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    assert!(error.to_string().contains("forgets every number"), "{error}");
    LockManager::builder().url("memory:").require_fencing_tokens().connect_lazy().unwrap();
    let error = manager.lock(long).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
}

#[tokio::test]
async fn a_login_is_shown_to_a_server_that_wants_one_and_to_no_other() {
    let server = MemcachedServer::with_login("app", SECRET);
    let with = |login: &str| format!("memcached://{login}{}", server.address());
    for (url, reason) in
        [(with(""), "memcached://user:password@host:port"), (with("app:wr0ng@"), "check them in the URL")]
    {
        let error = refusal(&url).await;
        let text = format!("{error} {error:?}");
        assert!(error.is_unavailable() && text.contains(reason), "{text}");
        assert!(!text.contains("wr0ng") && !text.contains(SECRET), "{text}");
    }
    let good = manager(&with(&format!("app:{SECRET}@"))).await;
    good.lock("k").acquire().await.unwrap().release().await.unwrap();
    let builder = LockManager::builder()
        .url(with("other:wr0ng@"))
        .credentials(|| async { Ok::<_, std::io::Error>(Credentials::new("app", SECRET)) });
    builder.connect().await.unwrap().lock("k").acquire().await.unwrap().release().await.unwrap();
    // A server without a password would store the login as an item.
    let open = MemcachedServer::start();
    let manager = manager(&format!("memcached://app:{SECRET}@{}", open.address())).await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(open.keys(), [""; 0]);
}

/// The address of a server that answers the first command of each connection, by the number of the connection.
fn server_that_says(reply: fn(usize) -> &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 64];
            if stream.read(&mut asked).is_ok_and(|read| read > 0) {
                drop(stream.write_all(format!("{}\r\n", reply(number)).as_bytes()));
            }
            open.push(stream);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_kind_is_refused() {
    let address = server_that_says(|_| "VERSION 1.4.39");
    let error = refusal(&format!("memcached://{address}")).await;
    assert!(error.to_string().contains("1.4.39 is too old"), "{error}");
}

/// Its limit (`-c`) may be reached for a moment only.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_too_many_connections_is_asked_again() {
    let address = server_that_says(|number| match number {
        0 | 1 => "ERROR Too many open connections",
        _ => "VERSION 1.6.18",
    });
    manager(&format!("memcached://{address}")).await;
}

/// Without versions, a release that arrives late would remove the lock of the next holder.
#[tokio::test]
async fn a_server_without_versions_is_refused() {
    let server = MemcachedServer::with(&["-C"]);
    let manager = manager(&server.url()).await;
    // A key with a space is written by another command.
    for key in ["k", "a b"] {
        let error = manager.lock(key).acquire().await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("without `-C`"), "{error}");
    }
}

/// The function that gives credentials never returns once. This costs one attempt to connect.
#[tokio::test]
async fn a_login_that_is_never_given_is_asked_for_again() {
    let server = MemcachedServer::with_login("app", SECRET);
    let calls = AtomicUsize::new(0);
    let credentials = move || {
        let hangs = calls.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if hangs {
                pending::<()>().await;
            }
            Ok::<_, std::io::Error>(Credentials::new("app", SECRET))
        }
    };
    let url = format!("memcached://{}?connect_timeout=1s", server.address());
    let builder = LockManager::builder().url(url).credentials(credentials);
    let manager = builder.unavailable_after(Duration::from_secs(60)).connect_lazy().unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}
