//! Objects of S3, written as on the book's page, on the simulated S3 of the Python package `moto`.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use distlock_fence::{Fence, FenceError};
use distlock_fixtures::{BOUND, START_BOUND, free_port, signals, wait_until};
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
        let mut failed = Vec::new();
        // While Python starts, another process may take the port.
        let (server, address) = loop {
            assert!(failed.len() < 5, "Python needs `pip install 'moto[server]'`: {failed:?}");
            let address = format!("127.0.0.1:{}", free_port());
            let mut server = Objects::at(&address);
            match server.make_bucket(&address).await {
                Ok(()) => break (server, address),
                Err(reason) => failed.push(reason),
            }
        };
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

    fn at(address: &str) -> Self {
        let (host, port) = address.split_once(':').unwrap();
        let python = std::env::var("DISTLOCK_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let mut command = Command::new(python);
        command.args(["-m", "moto.server", "-H", host, "-p", port]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Objects(process.unwrap())
    }

    /// # Errors
    ///
    /// It has ended, or another server has replied.
    async fn make_bucket(&mut self, address: &str) -> Result<(), String> {
        let mut ended = None;
        wait_until("moto listens", START_BOUND, || {
            ended = self.0.try_wait().unwrap();
            ended.is_some() || TcpStream::connect(address).is_ok()
        });
        if let Some(ended) = ended {
            return Err(ended.to_string());
        }
        let make = format!(
            "PUT /objects HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request\r\n\r\n"
        );
        let mut answer = Vec::new();
        let ask = async {
            let mut link = tokio::net::TcpStream::connect(address).await?;
            link.write_all(make.as_bytes()).await?;
            link.read_to_end(&mut answer).await
        };
        let asked = tokio::time::timeout(BOUND, ask).await;
        let answer = String::from_utf8_lossy(&answer);
        if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(format!("{asked:?}: {answer}")) }
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
