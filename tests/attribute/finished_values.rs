//! Return types that look like futures or streams, but are finished values.

use std::collections::HashMap;
use std::fmt::Display;
use std::pin::Pin;

use axum::Json;
use axum::response::{IntoResponse, Response};
use distlock::{LockError, LockManager, distributed_lock};
use futures_util::future::BoxFuture;

use crate::support::locked;

/// An error that becomes a response.
struct Refused(LockError);

impl From<LockError> for Refused {
    fn from(error: LockError) -> Self {
        Refused(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.0.to_string().into_response()
    }
}

#[distributed_lock(key = "k")]
async fn opaque_response() -> Result<impl IntoResponse, Refused> {
    Ok("text")
}

#[distributed_lock(key = "k", on_error = |error| (axum::http::StatusCode::CONFLICT, error.to_string()))]
async fn opaque_alone() -> impl IntoResponse {
    (axum::http::StatusCode::OK, String::new())
}

#[distributed_lock(key = "k")]
async fn json() -> Result<Json<Vec<u64>>, Refused> {
    Ok(Json(vec![1]))
}

#[distributed_lock(key = "k")]
async fn response() -> Result<Response, Refused> {
    Ok("text".into_response())
}

/// A function that is called later is not awaited now.
type Handler = Box<dyn Fn(u8) -> BoxFuture<'static, u8> + Send>;

#[distributed_lock(key = "k")]
async fn handler() -> Result<Handler, LockError> {
    Ok(Box::new(|x| Box::pin(async move { x })))
}

#[distributed_lock(key = "k")]
async fn written_handler() -> Result<Box<dyn Fn(u8) -> BoxFuture<'static, u8> + Send>, LockError> {
    Ok(Box::new(|x| Box::pin(async move { x })))
}

#[distributed_lock(key = "k")]
async fn opaque_handler() -> Result<impl Fn(u8) -> BoxFuture<'static, u8>, LockError> {
    Ok(|x| Box::pin(async move { x }) as BoxFuture<'static, u8>)
}

/// A pinned pointer that is neither a future nor a stream.
#[distributed_lock(key = "k")]
async fn pinned() -> Result<Pin<Box<u8>>, LockError> {
    Ok(Box::pin(1))
}

/// Another kind of stream.
#[distributed_lock(key = "k")]
async fn socket() -> Result<Option<tokio::net::TcpStream>, LockError> {
    Ok(None)
}

#[distributed_lock(key = "k")]
async fn channel() -> Result<tokio::sync::mpsc::Receiver<u8>, LockError> {
    Ok(tokio::sync::mpsc::channel(1).1)
}

#[distributed_lock(key = "k")]
async fn generic<T: Display, const N: usize>(
    values: [T; N],
) -> Result<(HashMap<usize, T>, [u8; N]), LockError> {
    Ok((values.into_iter().enumerate().collect(), [0; N]))
}

#[distributed_lock(key = "k")]
async fn borrowed<'a>(text: &'a str, list: &mut Vec<u8>) -> Result<std::borrow::Cow<'a, str>, LockError> {
    list.push(1);
    Ok(text.into())
}

trait Repository {
    type Row;
    async fn row(&self) -> Result<Self::Row, LockError>;
    fn row_on_a_thread(&self, manager: &LockManager) -> Result<<Self as Repository>::Row, LockError>;
}

impl Repository for u8 {
    type Row = u8;

    #[distributed_lock(key = "<self>")]
    async fn row(&self) -> Result<Self::Row, LockError> {
        Ok(*self)
    }

    #[distributed_lock(key = "k", manager = manager)]
    fn row_on_a_thread(&self, manager: &LockManager) -> Result<<Self as Repository>::Row, LockError> {
        Ok(*self)
    }
}

#[tokio::test]
async fn they_all_run() {
    locked(async {
        drop(opaque_response().await.map(IntoResponse::into_response));
        drop(opaque_alone().await.into_response());
        assert_eq!(json().await.map_err(|error| error.0).unwrap().0, [1]);
        response().await.map_err(|error| error.0).unwrap();
        assert_eq!(handler().await.unwrap()(1).await, 1);
        assert_eq!(written_handler().await.unwrap()(1).await, 1);
        assert_eq!(opaque_handler().await.unwrap()(1).await, 1);
        assert_eq!(*pinned().await.unwrap(), 1);
        assert!(socket().await.unwrap().is_none());
        assert!(channel().await.unwrap().recv().await.is_none());
        assert_eq!(generic(["a"]).await.unwrap().0[&0], "a");
        assert_eq!(borrowed("x", &mut vec![]).await.unwrap(), "x");
        assert_eq!(1u8.row().await.unwrap(), 1);
    })
    .await;
    assert_eq!(1u8.row_on_a_thread(&LockManager::in_memory()).unwrap(), 1);
}
