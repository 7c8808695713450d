//! The database has reached its quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use distlock_tests::{EtcdServers, eventually};
use tokio::task::JoinSet;

use crate::etcd::{LONG, process};

/// A member checks the quota again after it has executed a write. So a write that was refused may have been executed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_for_lack_of_space_leaves_no_place_and_releases_work() {
    let servers = Arc::new(EtcdServers::start(1, &["--quota-backend-bytes=3000000"]));
    let manager = process(&servers, "3600s").await;
    let held = manager.lock("held").ttl(LONG).acquire().await.unwrap();
    let (full, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for number in 0..16 {
        let (manager, full) = (manager.clone(), full.clone());
        running.spawn(async move {
            while !full.load(Ordering::Relaxed) {
                let request = manager.lock(format!("k{number}")).ttl(LONG).no_wait();
                let Ok(guard) = request.acquire().await else { continue };
                // Later versions refuse it if it is sent together with acquisitions. It is sent again.
                if let Err(error) = guard.release().await {
                    assert!(error.is_unavailable(), "{error}");
                }
            }
        });
    }
    let filling = servers.clone();
    let fill = move || {
        let large = "x".repeat(60_000);
        for number in 0..1_000 {
            if filling.ctl_at(0, &["put", &format!("large/{number}"), &large]).is_err() {
                return;
            }
        }
        panic!("the quota was never reached");
    };
    tokio::task::spawn_blocking(fill).await.unwrap();
    assert!(servers.ctl(&["alarm", "list"]).contains("NOSPACE"));
    full.store(true, Ordering::Relaxed);
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    eventually("only one place is left", async || servers.keys("distlock/locks/").len() == 1).await;
    // Now it is sent on its own. This version accepts a write within a batch.
    let error = manager.lock("k").wait(Duration::from_millis(100)).acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("takes no more data"), "{error}");
    held.check().unwrap();
    held.release().await.unwrap();
    servers.has_no_locks("distlock/");
}
