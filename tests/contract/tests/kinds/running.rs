//! A running store, and requests that are repeated until they are executed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use distlock::store::kit::connection::ConnectionOptions;
use distlock::store::{LockStore, StoreError, StoreEvents};
use distlock_contract_tests::Server;
use distlock_store::engine::{Failure, Report};
use tokio::sync::{mpsc, watch};

/// Longer than any run.
pub(crate) const LONG: Duration = Duration::from_secs(600);
pub(crate) const BOUND: Duration = Duration::from_secs(60);

type Grants = Vec<(String, Option<u64>)>;

/// A store that runs as in a manager.
pub(crate) struct Running<S: Server> {
    pub(crate) store: Arc<S::Store>,
    pub(crate) client: String,
    /// The owners that got a grant, each with its fencing token.
    pub(crate) granted: Arc<Mutex<Grants>>,
    task: tokio::task::JoinHandle<()>,
    _wanted: watch::Sender<bool>,
}

impl<S: Server> Running<S> {
    pub(crate) fn start(url: &str) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let client = format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let store = Arc::new(S::open(url, &ConnectionOptions::default()).unwrap());
        let (sender, mut reports) = mpsc::unbounded_channel();
        let (wanted, is_wanted) = watch::channel(true);
        let events = StoreEvents::new(client.as_str().into(), sender, Arc::default(), is_wanted);
        let granted = Arc::new(Mutex::new(Grants::new()));
        let (running, hearing) = (store.clone(), granted.clone());
        let hear = async move {
            while let Some(report) = reports.recv().await {
                if let Report::Granted { owner, fence, .. } = report {
                    hearing.lock().unwrap().push((owner, fence));
                }
            }
        };
        let task = tokio::spawn(async move {
            tokio::join!(running.run(events), hear);
        });
        Running { store, client, granted, task, _wanted: wanted }
    }
}

impl<S: Server> Drop for Running<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Repeats a request as long as nothing was done.
pub(crate) async fn asked<T>(ask: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, Ended> {
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(reply) => return Ok(reply),
            // There is no other client.
            Err(error) if error.to_string().contains("faster than distlock can ask") => {
                return Err(Ended::Wrong(error.to_string()));
            }
            Err(error) if matches!(error.kind, Failure::NotSent | Failure::Later) => {
                assert!(begin.elapsed() < BOUND, "{error}");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(_) => return Err(Ended::Unclear),
        }
    }
}

/// Why a run has ended early.
pub(crate) enum Ended {
    /// A failed request may have been executed, so the run has no result.
    Unclear,
    Wrong(String),
}
