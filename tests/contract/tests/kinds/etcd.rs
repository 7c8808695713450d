//! Commands of an earlier connection have no effect.

use std::sync::Arc;
use std::time::Instant;

use distlock::LockKind;
use distlock::store::{Acquire, LockStore, Owner, Publish, Release, StoreError};
use distlock_fixtures::EtcdServers;

use crate::running::{BOUND, LONG, Running, asked};

/// This holds for any delay, because another connection of the process has since written the session's key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_connection_writes_nothing() {
    let servers = EtcdServers::shared();
    let url = format!("etcd://{}?session_timeout=600s&response_timeout=4s", servers.address(0));
    let (process, other) = (Running::<EtcdServers>::start(&url), Running::<EtcdServers>::start(&url));
    let (store, session) = (&process.store, format!("distlock/sessions/{}", process.client));
    let all =
        ["acquires", "reads beside another", "releases", "releases and keeps", "publishes", "unpublishes"];
    for what in all {
        let begin = Instant::now();
        // Repeated if the store has noticed the fault between the two steps, and has a new connection.
        for attempt in 1.. {
            assert!(begin.elapsed() < BOUND, "what an earlier connection {what} is never refused");
            let (key, owner) = (Arc::from(format!("{what}{attempt}")), Owner::new(&process.client, attempt));
            let mut request = Acquire::new(Arc::clone(&key), &owner, LONG);
            let mut release = Release::new(Arc::clone(&key), &owner);
            release.keep = (what == "releases and keeps").then_some(LONG);
            let publish = Publish::new(Arc::clone(&key), &owner, "text");
            let holds = matches!(what, "releases" | "releases and keeps" | "publishes");
            let is_connected = if holds {
                asked(async || store.acquire(&request).await).await.is_ok()
            } else {
                asked(async || store.inspect(&key).await).await.is_ok()
            };
            if what == "reads beside another" {
                request.kind = LockKind::Shared;
                let mut beside = Acquire::new(Arc::clone(&key), &Owner::new(&other.client, attempt), LONG);
                beside.kind = LockKind::Shared;
                drop(asked(async || other.store.acquire(&beside).await).await);
            }
            servers.ctl(&["put", &session, "of another connection"]);
            let said = match what {
                "releases" | "releases and keeps" => store.release(&release).await.map(drop),
                "publishes" => store.publish(&publish).await,
                "unpublishes" => store.unpublish(&publish).await,
                _ => store.acquire(&request).await.map(drop),
            };
            let is_refused =
                |error: StoreError| error.to_string().contains("the session has another connection");
            if is_connected && said.is_err_and(is_refused) {
                break;
            }
        }
    }
}
