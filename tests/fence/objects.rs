//! Objects of S3, written as on the book's page, on the simulated S3 of the Python package `moto`.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use distlock_fence::{Fence, FenceError};
use distlock_fixtures::{eventually_blocking, free_port, signals};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, RetryConfig, UpdateVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The server, which is killed when this is dropped.
struct Objects(Child);

impl Drop for Objects {
    fn drop(&mut self) {
        signals::kill9(&mut self.0);
    }
}

impl Objects {
    /// Starts a server with a bucket of the name `objects`.
    async fn start() -> (Self, AmazonS3) {
        let (port, python) = (free_port(), std::env::var("DISTLOCK_TEST_PYTHON"));
        let python = python.unwrap_or_else(|_| "python3".to_owned());
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Objects(process.unwrap());
        let address = format!("127.0.0.1:{port}");
        eventually_blocking("moto listens", || {
            let ended = server.0.try_wait().unwrap();
            assert!(ended.is_none(), "Python needs `pip install 'moto[server]'`: {ended:?}");
            TcpStream::connect(&address).is_ok()
        });
        let mut link = tokio::net::TcpStream::connect(&address).await.unwrap();
        let make = format!(
            "PUT /objects HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request\r\n\r\n"
        );
        link.write_all(make.as_bytes()).await.unwrap();
        let mut answer = String::new();
        link.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The client needs a TLS provider, although it uses plain HTTP. Another test may have installed it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let store = AmazonS3Builder::new()
            .with_endpoint(format!("http://{address}"))
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_access_key_id("k")
            .with_secret_access_key("s")
            .with_bucket_name("objects")
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        (server, store.build().unwrap())
    }
}

/// The code of the page.
async fn replace(
    store: &impl ObjectStore,
    path: &Path,
    fence: &Fence,
    change: impl AsyncFn(&str) -> String,
) -> Result<(), FenceError> {
    let failed = |error| FenceError::not_committed(fence, error);
    loop {
        let (mode, body) = match store.get(path).await {
            Ok(found) => {
                let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
                let body = found.bytes().await.map_err(failed)?.to_vec();
                let body =
                    String::from_utf8(body).map_err(|error| FenceError::not_committed(fence, error))?;
                (PutMode::Update(UpdateVersion { e_tag, version }), body)
            }
            Err(Error::NotFound { .. }) => (PutMode::Create, "0\n".to_owned()),
            Err(error) => return Err(failed(error)),
        };
        let no_token = || FenceError::not_committed(fence, "the object has no token");
        let (newest, content) = body.split_once('\n').ok_or_else(no_token)?;
        let newest = newest.parse().map_err(|_| no_token())?;
        if newest > fence.token() {
            return Err(FenceError::stale(fence, newest));
        }
        let body = format!("{}\n{}", fence.token(), change(content).await);
        match store.put_opts(path, body.into(), mode.into()).await {
            Ok(_) => return Ok(()),
            // Another holder has written since then.
            Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(FenceError::outcome_unknown(fence, error)),
        }
    }
}

async fn content(store: &AmazonS3, path: &Path) -> String {
    let body = store.get(path).await.unwrap().bytes().await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Python with the moto package: ./scripts/test.sh"]
async fn an_object_refuses_holders_that_were_overtaken() {
    let (_server, store) = Objects::start().await;
    let path = Path::from("o");
    let write = async |token, text: &str| {
        replace(&store, &path, &Fence::new("k", token), async |_| text.to_owned()).await
    };
    // There is no object yet. One of the two creates it, and the other one reads again.
    let (one, other) = (Fence::new("k", 1), Fence::new("k", 1));
    let (one, other) = tokio::join!(
        replace(&store, &path, &one, async |content| format!("{content}x")),
        replace(&store, &path, &other, async |content| format!("{content}x"))
    );
    one.unwrap();
    other.unwrap();
    assert_eq!(content(&store, &path).await, "1\nxx");
    write(3, "third").await.unwrap();
    write(3, "the same").await.unwrap();
    let late = write(2, "second").await;
    assert!(matches!(late, Err(FenceError::Stale { newest: 3, .. })), "{late:?}");
    assert_eq!(content(&store, &path).await, "3\nthe same");
}

/// It has read before the later holders came, which leave the content unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Python with the moto package: ./scripts/test.sh"]
async fn a_holder_that_is_overtaken_between_read_and_write_is_refused() {
    let (_server, store) = Objects::start().await;
    let path = Path::from("o");
    let write = async |token, text: &str| {
        replace(&store, &path, &Fence::new("k", token), async |_| text.to_owned()).await
    };
    write(1, "as before").await.unwrap();
    let (overtaken, reads) = (Fence::new("k", 2), Mutex::new(0));
    let late = replace(&store, &path, &overtaken, async |_| {
        *reads.lock().unwrap() += 1;
        write(3, "changed").await.unwrap();
        write(4, "as before").await.unwrap();
        "late".to_owned()
    });
    let late = late.await;
    assert!(matches!(late, Err(FenceError::Stale { newest: 4, .. })), "{late:?}");
    assert_eq!(content(&store, &path).await, "4\nas before");
    assert_eq!(reads.into_inner().unwrap(), 1);
}
