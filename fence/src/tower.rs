//! Layers of `tower` for services on HTTP and gRPC: [`SendFence`] for the holder, and [`RefuseStale`] for a service
//! that must refuse requests of an overtaken holder.
//!
//! ```
//! use distlock_fence::Fence;
//! use distlock_fence::tower::{RefuseStale, SendFence};
//! use http::{Request, Response, StatusCode};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // What a framework makes of the handlers; it finds the fence in the extensions.
//! let handlers = service_fn(async |request: Request<String>| {
//!     let fence = request.extensions().get::<Fence>().expect("the layer asks for one");
//!     Ok::<_, std::convert::Infallible>(Response::new(format!("changed under {}", fence.key())))
//! });
//! let server = ServiceBuilder::new().layer(RefuseStale::remembering(100_000)).service(handlers);
//!
//! // One holder, and the next one; then the first one again.
//! for (token, status) in [(7, StatusCode::OK), (8, StatusCode::OK), (7, StatusCode::PRECONDITION_FAILED)] {
//!     let fence = Fence::new("points:42", token);
//!     let client = ServiceBuilder::new().layer(SendFence::new(&fence)).service(server.clone());
//!     let response = client.oneshot(Request::new(String::new())).await.unwrap();
//!     assert_eq!(response.status(), status);
//! }
//! # });
//! ```
//!
//! With gRPC, they are layers of the channel and of the server, because metadata are headers.
//!
//! # What it promises
//! A request is refused if this layer or a clone of it has already accepted a request with a later token of the same
//! key. This is less than a [`transaction`](crate::transaction) promises: accepted requests may overtake each other
//! after the layer, and other processes have their own memory. If the service has a database, let the handler pass the
//! fence to the database.
//!
//! Only the handler can check that the key guards the data of the request. A caller can send any token, and a token
//! that is too large locks out the honest holders of its key. Accept only callers that you trust.
//!
//! # What it forgets
//! The layer remembers a limited number of keys. If there are more, it forgets the key with the smallest token. From
//! then on, it refuses tokens below that token for *every* key that it does not know, so that it never accepts an older
//! token of a forgotten key. Tokens of Redis and SQLite come from the time, and tokens of etcd and ZooKeeper from a
//! number for all keys. There, the layer refuses holders that have waited for a long time. PostgreSQL and MySQL count
//! tokens for each key. There, make room for all keys, or a key that is rarely locked will be refused because of a key
//! that is often locked.
//!
//! A new process remembers nothing. With Redis and SQLite, [`RefuseStale::floor`] replaces this memory.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use tower_layer::Layer;
use tower_service::Service;

use crate::Fence;
use crate::header::FENCING_TOKEN;
use crate::newest::Newest;

/// A layer that sends a [fence](crate::header) with each request, and replaces an existing one.
#[derive(Clone, Debug)]
pub struct SendFence {
    value: HeaderValue,
}

impl SendFence {
    /// The layer for the requests of one holder.
    #[must_use]
    pub fn new(fence: &Fence) -> Self {
        SendFence { value: fence.to_header_value() }
    }
}

impl<S> Layer<S> for SendFence {
    type Service = Fenced<SendFence, S>;

    fn layer(&self, service: S) -> Self::Service {
        Fenced { layer: self.clone(), service }
    }
}

/// A layer that refuses a request if its [fence](crate::header) is older than the fence of an earlier request. An
/// accepted request has the [`Fence`] in its extensions. For a layer that logs, the response to a refused old request
/// has it, too.
///
/// | fence | response | gRPC |
/// |---|---|---|
/// | older, or perhaps older than a forgotten one | 412 Precondition Failed | `FAILED_PRECONDITION` |
/// | none, unless it is [`optional`](Self::optional) | 428 Precondition Required | `FAILED_PRECONDITION` |
/// | malformed, or more than one | 400 Bad Request | `INVALID_ARGUMENT` |
///
/// Clones share one memory.
#[derive(Clone, Debug)]
pub struct RefuseStale {
    newest: Arc<Mutex<Newest>>,
    is_optional: bool,
}

impl RefuseStale {
    /// The layer, with room for the tokens of this many keys. A key takes about 100 bytes, and the length of the key.
    #[must_use]
    pub fn remembering(keys: usize) -> Self {
        RefuseStale { newest: Arc::new(Mutex::new(Newest::new(keys))), is_optional: false }
    }

    /// Accepts requests without a fence.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Refuses tokens below this one for every unknown key. Pass the start of the process in microseconds since 1970,
    /// to refuse holders from before the start. (Use it only with Redis and SQLite, because only their tokens come from
    /// the time.)
    #[must_use]
    pub fn floor(self, token: u64) -> Self {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).raise_floor(token);
        self
    }

    fn let_in(&self, headers: &HeaderMap) -> Result<Option<Fence>, Refusal> {
        let mut values = headers.get_all(FENCING_TOKEN).iter();
        let value = match (values.next(), values.next()) {
            (None, _) if self.is_optional => return Ok(None),
            (None, _) => return Err(Refusal::Missing),
            (Some(value), None) => value,
            (Some(_), Some(_)) => return Err(Refusal::Unreadable),
        };
        let fence = Fence::from_header_value(value).map_err(|_error| Refusal::Unreadable)?;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.lets_in(fence.key(), fence.token()) { Ok(Some(fence)) } else { Err(Refusal::Stale(fence)) }
    }
}

impl<S> Layer<S> for RefuseStale {
    type Service = Fenced<RefuseStale, S>;

    fn layer(&self, service: S) -> Self::Service {
        Fenced { layer: self.clone(), service }
    }
}

/// A service below one of the layers.
#[derive(Clone, Debug)]
pub struct Fenced<L, S> {
    layer: L,
    service: S,
}

impl<S, B> Service<Request<B>> for Fenced<SendFence, S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.headers_mut().insert(FENCING_TOKEN, self.layer.value.clone());
        self.service.call(request)
    }
}

impl<S, B, R> Service<Request<B>> for Fenced<RefuseStale, S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<R>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.layer.let_in(request.headers()) {
            Ok(fence) => {
                if let Some(fence) = fence {
                    request.extensions_mut().insert(fence);
                }
                Either::Right(self.service.call(request))
            }
            Err(refusal) => {
                let content_type = request.headers().get(CONTENT_TYPE);
                let is_grpc =
                    content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
                Either::Left(ready(Ok(if is_grpc { refusal.of_grpc() } else { refusal.response() })))
            }
        }
    }
}

/// Why a request is refused.
enum Refusal {
    Stale(Fence),
    Missing,
    Unreadable,
}

impl Refusal {
    fn response<R: Default>(self) -> Response<R> {
        let mut response = Response::new(R::default());
        *response.status_mut() = match &self {
            Refusal::Stale(_) => StatusCode::PRECONDITION_FAILED,
            Refusal::Missing => StatusCode::PRECONDITION_REQUIRED,
            Refusal::Unreadable => StatusCode::BAD_REQUEST,
        };
        self.explain(response)
    }

    /// Its status is in a header, where there is nothing but a status.
    fn of_grpc<R: Default>(self) -> Response<R> {
        let mut response = Response::new(R::default());
        let (status, message) = match &self {
            Refusal::Stale(_) => ("9", "a later holder has been accepted"),
            Refusal::Missing => ("9", "the request has no fencing token"),
            Refusal::Unreadable => ("3", "the fencing token cannot be read"),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", HeaderValue::from_static(status));
        headers.insert("grpc-message", HeaderValue::from_static(message));
        self.explain(response)
    }

    fn explain<R>(self, mut response: Response<R>) -> Response<R> {
        if let Refusal::Stale(fence) = self {
            response.extensions_mut().insert(fence);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tonic::metadata::{MetadataMap, MetadataValue};
    use tower::{ServiceExt, service_fn};

    use super::*;

    /// Sends a request through the layer to a service that answers with the fence of the request.
    async fn answer(layer: &RefuseStale, request: Request<()>) -> Response<String> {
        let echo = service_fn(async |request: Request<()>| {
            let fence = request.extensions().get::<Fence>();
            Ok::<_, Infallible>(Response::new(fence.map_or("nothing".to_owned(), ToString::to_string)))
        });
        layer.layer(echo).oneshot(request).await.unwrap()
    }

    fn with(values: &[&str]) -> Request<()> {
        let mut request = Request::new(());
        for value in values {
            request.headers_mut().append(FENCING_TOKEN, value.parse().unwrap());
        }
        request
    }

    #[tokio::test]
    async fn each_fence_has_its_status() {
        let layer = RefuseStale::remembering(9).floor(3);
        for (values, status) in [
            (&[r#""7";key="k""#][..], StatusCode::OK),
            (&[r#""7";key="k""#], StatusCode::OK),
            (&[r#""6";key="k""#], StatusCode::PRECONDITION_FAILED),
            (&[r#""3";key="another""#], StatusCode::OK),
            (&[r#""2";key="unknown""#], StatusCode::PRECONDITION_FAILED),
            (&[], StatusCode::PRECONDITION_REQUIRED),
            (&["8"], StatusCode::BAD_REQUEST),
            (&[r#""8";key="k""#, r#""9";key="k""#], StatusCode::BAD_REQUEST),
        ] {
            let response = answer(&layer, with(values)).await;
            assert_eq!(response.status(), status, "{values:?}");
            let stale = response.extensions().get::<Fence>();
            assert_eq!(stale.is_some(), status == StatusCode::PRECONDITION_FAILED, "{values:?}");
        }
        let response = answer(&layer, with(&[r#""7";key="k""#])).await;
        assert_eq!(response.into_body(), "k#7");
    }

    #[tokio::test]
    async fn without_a_fence_a_request_is_let_through_where_it_is_optional() {
        let layer = RefuseStale::remembering(9).optional();
        assert_eq!(answer(&layer, with(&[])).await.into_body(), "nothing");
        assert_eq!(answer(&layer, with(&["8"])).await.status(), StatusCode::BAD_REQUEST);
        answer(&layer, with(&[r#""7";key="k""#])).await;
        assert_eq!(answer(&layer, with(&[r#""6";key="k""#])).await.status(), StatusCode::PRECONDITION_FAILED);
    }

    /// Metadata of gRPC are headers, and a refusal is a status.
    #[tokio::test]
    async fn grpc_has_a_status_of_its_own() {
        let layer = RefuseStale::remembering(9);
        for (value, code) in [
            (Some(r#""7";key="k""#), None),
            (Some(r#""6";key="k""#), Some(tonic::Code::FailedPrecondition)),
            (None, Some(tonic::Code::FailedPrecondition)),
            (Some("7"), Some(tonic::Code::InvalidArgument)),
        ] {
            let mut metadata = MetadataMap::new();
            if let Some(value) = value {
                metadata.insert("fencing-token", MetadataValue::try_from(value).unwrap());
            }
            let mut request = Request::new(());
            *request.headers_mut() = metadata.into_headers();
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc+proto"));
            let response = answer(&layer, request).await;
            assert_eq!(response.status(), StatusCode::OK);
            let status = tonic::Status::from_header_map(response.headers());
            assert_eq!(status.map(|status| status.code()), code, "{value:?}");
        }
    }

    /// The client sends the fence of its holder, and not the fence that a forwarded request already has.
    #[tokio::test]
    async fn the_client_sends_the_fence_of_its_holder() {
        let fence = Fence::new("ключ", 7);
        let server = service_fn(async |request: Request<()>| {
            let values = request.headers().get_all(FENCING_TOKEN).iter();
            Ok::<_, Infallible>(values.map(Fence::from_header_value).collect::<Vec<_>>())
        });
        let sent = SendFence::new(&fence).layer(server).oneshot(with(&[r#""6";key="k""#])).await.unwrap();
        assert_eq!(sent, [Ok(fence)]);
    }
}
