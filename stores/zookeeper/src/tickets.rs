//! Places that were handed over, and that no process has taken over so far.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use zookeeper_client::{Client, Error, OneshotWatcher};

/// The pause between attempts to delete a place while the connection is lost.
const PAUSE: Duration = Duration::from_secs(1);

/// One task for each place of this session that was handed over. Every task has the client, so the client does not end
/// the session.
#[derive(Debug, Default)]
pub(super) struct Tickets(JoinSet<()>);

impl Tickets {
    pub(super) fn add(&mut self, ticket: impl Future<Output = ()> + Send + 'static) {
        self.forget_used();
        self.0.spawn(ticket);
    }

    fn forget_used(&mut self) {
        while self.0.try_join_next().is_some() {}
    }

    /// The session is over.
    pub(super) fn clear(&mut self) {
        self.0 = JoinSet::new();
    }

    /// The manager ends. `true`: there are tickets, and their tasks run until the runtime ends, so the session is not
    /// ended.
    pub(super) fn leave(&mut self) -> bool {
        self.forget_used();
        let are_there = !self.0.is_empty();
        self.0.detach_all();
        are_there
    }
}

/// Deletes a place that was handed over after `ttl`, unless it is deleted earlier.
pub(super) async fn end_of_ticket(client: Client, path: String, watcher: OneshotWatcher, ttl: Duration) {
    tokio::select! {
        // The lock was taken over or released, or the session has ended.
        _ = watcher.changed() => return,
        () = sleep(ttl) => {}
    }
    loop {
        match client.delete(&path, None).await {
            Ok(())
            | Err(
                Error::NoNode
                | Error::SessionExpired
                | Error::ClientClosed
                | Error::AuthFailed
                | Error::NoAuth,
            ) => return,
            Err(_) => sleep(PAUSE).await,
        }
    }
}
