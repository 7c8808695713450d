//! Waiting for the link to the store.

use std::time::Duration;

use super::Core;
use crate::backend::BoxFuture;
use crate::protocol::{Failure, StoreError};

/// The state of the link for a task that waits for it.
#[derive(Clone, Debug)]
pub(crate) enum LinkSeen {
    NotYet,
    Up,
    Down(StoreError),
}

impl Core {
    /// Waits for at most `d` until the link is up. It ends earlier if the server refuses permanently. Returns the last
    /// state.
    pub(crate) async fn link_within(&self, d: Duration) -> LinkSeen {
        let mut seen = self.link.subscribe();
        let reached = async {
            let found = seen.wait_for(|link| match link {
                LinkSeen::NotYet => false,
                LinkSeen::Up => true,
                LinkSeen::Down(cause) => cause.kind == Failure::Refused,
            });
            found.await.map(|link| link.clone()).unwrap_or(LinkSeen::NotYet)
        };
        tokio::select! {
            link = reached => link,
            () = self.sleep(d) => self.link.borrow().clone(),
        }
    }

    /// Asks the store. If there is no link, waits for it up to `d`, and asks again.
    pub(crate) async fn reaching<T>(
        &self,
        d: Duration,
        operation: impl Fn() -> BoxFuture<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match operation().await {
            Err(error) if error.kind == Failure::NotSent => {}
            other => return other,
        }
        match self.link_within(d).await {
            LinkSeen::Down(error) => Err(error),
            LinkSeen::Up | LinkSeen::NotYet => operation().await,
        }
    }

    /// Becomes ready when a new connection to the store is up after this call.
    pub(crate) fn connected_anew(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut seen = self.link.subscribe();
        async move {
            while seen.changed().await.is_ok() {
                if matches!(*seen.borrow_and_update(), LinkSeen::Up) {
                    return;
                }
            }
            // The manager has ended.
            std::future::pending().await
        }
    }
}
