//! `LockManager::using` of rslock with one server: polls, and renews. It returns early when it loses the lock.

use std::time::Duration;

use rslock::{LockError, LockManager};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{error::Elapsed, timeout},
};

use crate::Library;

pub(crate) struct Rslock(LockManager);

pub(crate) struct Lock {
    leave: oneshot::Sender<()>,
    using: JoinHandle<Result<(), LockError>>,
}

impl Library for Rslock {
    type Lock = Lock;
    const HELLO: &'static str = "rslock 0.10.0 tokens=no waits=yes renews=yes";

    async fn connect(url: &str) -> Result<Self, String> {
        Ok(Rslock(LockManager::new(vec![url])))
    }

    async fn acquire(&self, key: String, ttl: Duration, wait: Duration) -> Result<Option<Lock>, String> {
        let manager = self.0.clone();
        let ((enter, entered), (leave, left)) = (oneshot::channel(), oneshot::channel());
        let using = tokio::spawn(async move {
            let routine = async move || {
                if enter.send(()).is_ok() {
                    left.await.ok();
                }
            };
            manager.using(key.as_bytes(), ttl, routine).await
        });
        match timeout(wait, entered).await {
            Ok(Ok(())) => Ok(Some(Lock { leave, using })),
            Ok(Err(_)) => Err("it returned before the lock was held".to_owned()),
            // It would wait forever.
            Err(Elapsed { .. }) => {
                using.abort();
                Ok(None)
            }
        }
    }

    async fn lost(lock: &mut Lock) {
        (&mut lock.using).await.ok();
    }

    async fn release(lock: Lock) -> Result<bool, String> {
        lock.leave.send(()).ok();
        Ok(lock.using.await.map_err(|error| error.to_string())?.is_ok())
    }
}
