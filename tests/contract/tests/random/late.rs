//! A renewal that was too late is sent again before its result counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::LockKind;
use distlock::store::{Acquire, LockStore, Owner, Renew, RenewReply};
use distlock_contract_tests::Server;
use distlock_fixtures::{Direction, MariaDbServer, Proxy};

use crate::Running;
use crate::database::Database;

/// Every statement of a store has a shorter deadline than this, by the clock of the server.
const TOO_LATE_MS: i64 = 3_500;
const SHORT: Duration = Duration::from_secs(100);
const LONG: Duration = Duration::from_secs(1_000);
const BOUND: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_came_too_late_is_not_believed() {
    let server = MariaDbServer::shared();
    tokio::join!(
        late_renewal(server, LockKind::Exclusive, 1),
        late_renewal(server, LockKind::Exclusive, 2),
        late_renewal(server, LockKind::Shared, 1),
        late_renewal(server, LockKind::Limited { max_holders: 2 }, 2),
    );
}

/// Reads the clock of the server.
async fn now_ms(server: &MariaDbServer) -> i64 {
    server.number("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS SIGNED)").await
}

/// Renews the leases of this many keys while the link holds the statement until it is too late.
async fn late_renewal(server: &MariaDbServer, kind: LockKind, count: u64) {
    let tables = MariaDbServer::unused_tables();
    let proxy = Proxy::to(&server.host());
    let url = format!("{}?table_prefix={tables}&response_timeout=4s", server.url_through(&proxy));
    let running = Running::start::<MariaDbServer>(&url, "c");
    let begin = Instant::now();
    // Repeated if the store has timed out before the reply, or had no connection.
    for attempt in 0.. {
        assert!(begin.elapsed() < BOUND, "no late renewal of {kind} was ever answered");
        let keys = (0..count).map(|number| Arc::<str>::from(format!("{attempt}:{number}")));
        let owners: Vec<(Arc<str>, Owner)> =
            keys.zip(1..).map(|(key, n)| (key, Owner::new("c", n))).collect();
        let mut is_acquired = true;
        for (key, owner) in &owners {
            let mut request = Acquire::new(key.clone(), owner, SHORT);
            request.kind = kind;
            is_acquired &= running.store.acquire(&request).await.is_ok();
        }
        if !is_acquired {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        let renewals: Vec<Renew> = owners
            .iter()
            .map(|(key, owner)| {
                let mut request = Renew::new(key.clone(), owner, LONG);
                request.kind = kind;
                request
            })
            .collect();
        proxy.hold(Direction::Requests);
        // The renewal is sent before the server is asked for its time.
        let (renewed, ()) = tokio::join!(
            biased;
            async {
                match renewals.as_slice() {
                    [alone] => running.store.renew(alone).await.map(|reply| vec![reply]),
                    all => running.store.renew_all(all).await,
                }
            },
            async {
                let sent = now_ms(server).await;
                while now_ms(server).await <= sent + TOO_LATE_MS {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                proxy.pass();
            }
        );
        let Ok(replies) = renewed else { continue };
        assert!(replies.iter().all(|reply| *reply == RenewReply::Renewed), "{replies:?}");
        let lasting = format!(
            "SELECT COUNT(*) FROM {tables}lock_1 \
             WHERE k LIKE '{attempt}:%' AND expires > UTC_TIMESTAMP(6) + INTERVAL 500 SECOND"
        );
        assert_eq!(server.number(&lasting).await, i64::try_from(count).unwrap(), "{kind} was not renewed");
        return;
    }
}
