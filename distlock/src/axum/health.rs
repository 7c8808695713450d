//! The health of a leader, for the probe of an orchestrator.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::IntoResponse;
use http::{Request, Response, StatusCode};
use tower_service::Service;

use crate::leader::Candidate;

/// A service for a liveness probe. It responds with 200 while a candidate is [healthy](Candidate::health), and with 503
/// if its body continues after its term is over. An orchestrator then restarts the process. `HealthzAdaptor` of
/// client-go does the same.
///
/// ```
/// use std::time::Duration;
/// use axum::Router;
/// use distlock::{LockManager, axum::LeaderHealth};
///
/// let candidate = LockManager::in_memory().leader("scheduler");
/// let health = LeaderHealth::new(candidate.clone(), Duration::from_secs(20));
/// let router: Router = Router::new().route_service("/healthz", health);
/// ```
#[doc(alias("HealthzAdaptor", "healthz", "liveness"))]
#[derive(Clone, Debug)]
pub struct LeaderHealth {
    candidate: Candidate,
    tolerance: Duration,
}

impl LeaderHealth {
    /// Reports the health of this candidate. The tolerance counts from the first probe that finds the term over.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::{LockManager, axum::LeaderHealth};
    ///
    /// let candidate = LockManager::in_memory().leader("scheduler");
    /// let health = LeaderHealth::new(candidate.clone(), Duration::from_secs(20));
    /// # drop(health);
    /// ```
    #[must_use]
    pub fn new(candidate: Candidate, tolerance: Duration) -> Self {
        LeaderHealth { candidate, tolerance }
    }
}

impl<B> Service<Request<B>> for LeaderHealth {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<B>) -> Self::Future {
        let response = match self.candidate.health(self.tolerance) {
            Ok(()) => "ok".into_response(),
            // The text does not name the office, because its name may be secret.
            Err(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the body of the leader still runs, although its term is over",
            )
                .into_response(),
        };
        ready(Ok(response))
    }
}
