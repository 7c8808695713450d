//! `ttl`, `renew`, `max_hold`, `min_hold`, as literals and as expressions.

use std::time::{Duration, Instant};

use distlock::{LockError, distributed_lock};

use crate::support::{SHORT, assert_free, assert_held, locked};

#[distributed_lock(key = "k", ttl = ttl, guard = guard)]
async fn ttl(ttl: Duration) -> Result<Duration, LockError> {
    Ok(guard.remaining())
}

#[distributed_lock(key = "k", ttl = "2m", guard = guard)]
async fn ttl_literal() -> Result<Duration, LockError> {
    Ok(guard.remaining())
}

#[distributed_lock(key = "k", ttl = "60ms")]
async fn renewed(time: Duration) -> Result<(), LockError> {
    tokio::time::sleep(time).await;
    Ok(())
}

#[distributed_lock(key = "k", max_hold = limit, ttl = "30ms")]
async fn max_hold(limit: Duration) -> Result<(), LockError> {
    std::future::pending().await
}

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
        let left = ttl(Duration::from_secs(5)).await.unwrap();
        assert!(left > Duration::from_secs(4) && left <= Duration::from_secs(5), "{left:?}");
        let left = ttl_literal().await.unwrap();
        assert!(left > Duration::from_secs(110) && left <= Duration::from_secs(120), "{left:?}");
        assert!(matches!(ttl(Duration::ZERO).await, Err(LockError::InvalidOptions { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_lease_is_renewed_while_the_body_runs() {
    locked(async { renewed(SHORT * 6).await.unwrap() }).await;
}

#[tokio::test]
async fn a_cap_on_renewal_as_an_expression() {
    locked(async {
        let started = Instant::now();
        assert!(max_hold(SHORT * 3).await.unwrap_err().is_lost());
        assert!(started.elapsed() < Duration::from_secs(5));
    })
    .await;
}

#[tokio::test]
async fn a_quick_body_keeps_others_out_for_min_hold() {
    locked(async {
        min_hold().await.unwrap();
        assert_held("k").await;
        tokio::time::sleep(SHORT * 4).await;
        assert_free("k").await;
        Job { pause: SHORT }.failing().await;
        assert_held("k").await;
    })
    .await;
}
