//! A layer that serves one request at a time for each key.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum_core::body::Body;
use axum_core::response::IntoResponse;
use http::request::Parts;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::manager::LockManager;
use crate::request::LockRequest;

type KeyFn = dyn Fn(&Parts) -> Option<Result<LockKey, LockError>> + Send + Sync;
type Options = dyn Fn(LockRequest) -> LockRequest + Send + Sync;

/// A layer that passes one request at a time for each key to the service below it, on all machines together.
///
/// A function returns the key of a request. With `None`, the request passes without a lock. While the service works,
/// the lock is held and renewed. If the lock is lost, the service's future is dropped at its next await. If the client
/// disconnects, the future is dropped, too, and the lock is released. The lock is held until the service returns a
/// response, and not while the response's body is streamed. An error of the lock becomes the response: see [the
/// table](crate::axum#the-responses).
///
/// ```
/// use std::time::Duration;
///
/// use axum::Router;
/// use axum::routing::post;
/// use distlock::LockManager;
/// use distlock::axum::OneAtATime;
///
/// let locks = LockManager::in_memory();
/// // Withdrawals from one account are made one after the other.
/// let by_account = OneAtATime::new(locks, |request| {
///     let account: u64 = request.uri.path().strip_prefix("/withdrawals/")?.parse().ok()?;
///     Some(format!("account:{account}"))
/// })
/// .with(|request| request.wait(Duration::from_secs(2)).label("withdrawal"));
/// let route = post(async || "paid out");
/// let router: Router = Router::new().route("/withdrawals/{account}", route).layer(by_account);
/// ```
///
/// This layer does not make a request idempotent. If a client sends a request again, the service processes it again,
/// after the first one. Use [`IdempotencyKey`](crate::axum::IdempotencyKey) and `once` for that.
///
/// Text from a request is not escaped in the key. Put a prefix before it, so that no client can choose the key of
/// another lock.
#[doc(alias("middleware", "layer"))]
#[derive(Clone)]
pub struct OneAtATime {
    manager: LockManager,
    key: Arc<KeyFn>,
    options: Arc<Options>,
    label: &'static str,
}

impl OneAtATime {
    /// Locks of `manager`, by the key of each request.
    ///
    /// Their label in metrics and traces is the name of the function that returns the key. For a closure, it is the
    /// function around it, such as `my_service::router`. [`with`](Self::with) sets another label.
    ///
    /// ```
    /// use distlock::LockManager;
    /// use distlock::axum::OneAtATime;
    ///
    /// // One import at a time; everything else passes.
    /// let layer = OneAtATime::new(LockManager::in_memory(), |request| {
    ///     (request.uri.path() == "/import").then_some("import")
    /// });
    /// # drop(layer);
    /// ```
    #[must_use]
    pub fn new<K: IntoLockKey>(
        manager: LockManager,
        key: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        let label = std::any::type_name_of_val(&key).trim_end_matches("::{{closure}}");
        let key = Arc::new(move |parts: &Parts| key(parts).map(IntoLockKey::into_lock_key));
        OneAtATime { manager, key, options: Arc::new(|request| request), label }
    }

    /// Sets options of the lock, such as its `wait`. Options that are not set have the manager's defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::LockManager;
    /// use distlock::axum::OneAtATime;
    ///
    /// let layer = OneAtATime::new(LockManager::in_memory(), |_request| Some("import"))
    ///     .with(|request| request.ttl(Duration::from_secs(10)).no_wait());
    /// # drop(layer);
    /// ```
    #[must_use]
    pub fn with(self, options: impl Fn(LockRequest) -> LockRequest + Send + Sync + 'static) -> Self {
        OneAtATime { options: Arc::new(options), ..self }
    }

    fn request(&self, parts: &Parts) -> Option<LockRequest> {
        let request = self.manager.lock((self.key)(parts)?).label(self.label);
        Some((self.options)(request))
    }
}

impl fmt::Debug for OneAtATime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneAtATime").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl<S> Layer<S> for OneAtATime {
    type Service = Locked<S>;

    fn layer(&self, service: S) -> Locked<S> {
        Locked { service, locks: self.clone() }
    }
}

/// A service below [`OneAtATime`].
///
/// ```
/// use axum::routing::post;
/// use distlock::LockManager;
/// use distlock::axum::{Locked, OneAtATime};
/// use tower_layer::Layer;
///
/// let layer = OneAtATime::new(LockManager::in_memory(), |_request| Some("import"));
/// let service: Locked<axum::Router> = layer.layer(axum::Router::new().route("/import", post(async || "done")));
/// # drop(service);
/// ```
#[derive(Clone, Debug)]
pub struct Locked<S> {
    service: S,
    locks: OneAtATime,
}

impl<S, B, R> Service<Request<B>> for Locked<S>
where
    S: Service<Request<B>, Response = R> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: IntoResponse + Send,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Calls the service that was polled until it was ready, because the clone may not be ready.
        let clone = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, clone);
        let (parts, body) = request.into_parts();
        let lock = self.locks.request(&parts);
        let request = Request::from_parts(parts, body);
        Box::pin(async move {
            let served = match lock {
                None => service.call(request).await,
                Some(lock) => match lock.run(move |_| async move { service.call(request).await }).await {
                    Ok(served) => served,
                    Err(error) => return Ok(error.into_response()),
                },
            };
            served.map(IntoResponse::into_response)
        })
    }
}
