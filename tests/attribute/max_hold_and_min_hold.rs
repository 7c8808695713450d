//! `ttl`, `renew`, `max_hold`, `min_hold`, as literals and as expressions.

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager, LostReason, distributed_lock};

use crate::support::{LONG, SHORT, assert_held, locked, until_free};

#[distributed_lock(key = "k", ttl = ttl, guard = guard)]
async fn ttl(ttl: Duration) -> Result<Duration, LockError> {
    Ok(guard.remaining())
}

#[distributed_lock(key = "k", ttl = "2m", guard = guard)]
async fn ttl_literal() -> Result<Duration, LockError> {
    Ok(guard.remaining())
}

/// Returns when the lease lasts longer than before.
#[distributed_lock(key = "k", ttl = "1500ms", guard = guard)]
async fn renewed() -> Result<(), LockError> {
    let mut before = guard.remaining();
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let remaining = guard.check().map(|()| guard.remaining())?;
        if remaining > before {
            return Ok(());
        }
        before = remaining;
    }
}

#[distributed_lock(key = "k", max_hold = limit)]
async fn max_hold(limit: Duration) -> Result<(), LockError> {
    std::future::pending().await
}

const MIN_HOLD: Duration = Duration::from_millis(80);

#[distributed_lock(key = "k", min_hold = "80ms")]
async fn min_hold() -> Result<(), LockError> {
    Ok(())
}

struct Job {
    pause: Duration,
}

impl Job {
    #[distributed_lock(key = "k", min_hold = self.pause * 2, on_error = |_| ())]
    async fn failing(&self) {}
}

#[tokio::test]
async fn the_lease_time() {
    locked(async {
        let left = ttl(LONG * 2).await.unwrap();
        assert!(left > LONG && left <= LONG * 2, "{left:?}");
        let left = ttl_literal().await.unwrap();
        assert!(left > Duration::from_secs(60) && left <= Duration::from_secs(120), "{left:?}");
        assert!(matches!(ttl(Duration::ZERO).await, Err(LockError::InvalidOptions { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_body_runs() {
    locked(async { renewed().await.unwrap() }).await;
}

#[tokio::test]
async fn a_cap_on_renewal_as_an_expression() {
    locked(async {
        let error = max_hold(SHORT * 3).await.unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::MaxHold, .. }), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn a_quick_body_keeps_others_out_for_min_hold() {
    locked(async {
        let started = Instant::now();
        min_hold().await.unwrap();
        until_free(&LockManager::current().unwrap(), "k").await;
        assert!(started.elapsed() >= MIN_HOLD, "{:?}", started.elapsed());
        Job { pause: LONG }.failing().await;
        assert_held("k").await;
    })
    .await;
}
