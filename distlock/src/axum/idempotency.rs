//! Requests that a client may repeat: the headers `Idempotency-Key` and `Idempotent-Replayed`.

use std::fmt;

use axum_core::extract::FromRequestParts;
use axum_core::response::{IntoResponse, Response};
#[cfg(feature = "once")]
use axum_core::response::{IntoResponseParts, ResponseParts};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use sfv::{Item, Parser};

use super::response::Problem;

const HEADER: &str = "idempotency-key";
/// An idempotency key becomes a part of a lock's key, which is limited to 512 bytes on some stores.
const LONGEST: usize = 255;

/// The `Idempotency-Key` of a request, as an argument of a handler. It identifies a repeated request.
///
/// A client creates a new key, such as a UUID, for each operation, and sends the same key with every retry
/// ([draft-ietf-httpapi-idempotency-key-header][draft]). A function with `once` does the rest. The client gets this
/// status:
///
/// [draft]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
///
/// | | status |
/// |---|---|
/// | the key is missing or malformed | 400 |
/// | the first request is still running (`wait = "0s"`) | 409, with `Retry-After` |
/// | the key was used with other arguments (`once_of`) | 422 |
/// | the operation was already done | the status of the first response, with `Idempotent-Replayed: true`, by `Replayed` |
///
/// ```ignore
/// use axum::Json;
/// use axum::extract::State;
/// use distlock::axum::{IdempotencyKey, Replayed};
/// use distlock::fence::Outcome;
/// use distlock::{LockError, LockManager, distributed_lock};
///
/// #[derive(Clone)]
/// struct Shop { locks: LockManager, pool: sqlx::SqlitePool }
///
/// impl Shop {
///     #[distributed_lock(
///         key = "redeem:<request>",
///         wait = "0s",
///         manager = self.locks,
///         transaction = tx in self.pool,
///         once = "24h",
///         once_of = gift,
///         once_outcome = outcome
///     )]
///     async fn redeem(
///         &self,
///         request: &IdempotencyKey,
///         gift: &str,
///         outcome: &mut Outcome,
///     ) -> Result<String, LockError> {
///         // Statements that are sent by `tx`.
///         Ok(format!("a receipt for {gift}"))
///     }
/// }
///
/// async fn redeem(
///     State(shop): State<Shop>,
///     key: IdempotencyKey,
///     Json(gift): Json<String>,
/// ) -> Result<(Replayed, Json<String>), LockError> {
///     let mut outcome = Outcome::default();
///     let receipt = shop.redeem(&key, &gift, &mut outcome).await?;
///     Ok((Replayed(outcome), Json(receipt)))
/// }
/// ```
///
/// Keys of one client must not collide with keys of another client. If the service knows its clients, put the client's
/// name into the key of the lock, such as `"redeem:<user>:<request>"`.
///
/// The value is a string of structured fields (`"8e03978e-…"`, RFC 9651). Many clients send it without quotation marks,
/// which is accepted, too. It has 1 to 255 characters of visible ASCII.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(value: &HeaderValue) -> Option<Self> {
        let text = value.to_str().ok()?.trim_matches([' ', '\t']);
        let key = if text.starts_with('"') {
            // Parameters are ignored, as structured fields want it.
            let item = Parser::new(text).parse::<Item>().ok()?;
            item.bare_item.as_string()?.as_str().to_owned()
        } else {
            text.to_owned()
        };
        let is_one = (1..=LONGEST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        is_one.then_some(IdempotencyKey(key))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = NoIdempotencyKey;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoIdempotencyKey> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let value = values.next().ok_or(NoIdempotencyKey(Why::Missing))?;
        let key = IdempotencyKey::parse(value).filter(|_| values.next().is_none());
        key.ok_or(NoIdempotencyKey(Why::Malformed))
    }
}

/// Why a request has no [`IdempotencyKey`]: a response with status 400.
#[derive(Clone, Copy, Debug)]
pub struct NoIdempotencyKey(Why);

#[derive(Clone, Copy, Debug)]
enum Why {
    Missing,
    Malformed,
}

impl NoIdempotencyKey {
    fn problem(self) -> Problem {
        let (code, detail) = match self.0 {
            Why::Missing => {
                ("idempotency_key_missing", "The request needs a header Idempotency-Key, such as a UUID.")
            }
            Why::Malformed => (
                "idempotency_key_malformed",
                "The header Idempotency-Key must occur once, with 1 to 255 visible characters of ASCII.",
            ),
        };
        Problem { status: StatusCode::BAD_REQUEST, code, detail }
    }
}

impl fmt::Display for NoIdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem().detail)
    }
}

impl std::error::Error for NoIdempotencyKey {}

impl IntoResponse for NoIdempotencyKey {
    fn into_response(self) -> Response {
        self.problem().response(None)
    }
}

/// A part of a response. It adds the header `Idempotent-Replayed: true` if the response is the result of an earlier
/// request. Feature `once`.
#[cfg(feature = "once")]
#[derive(Clone, Copy, Debug)]
pub struct Replayed(pub distlock_fence::Outcome);

#[cfg(feature = "once")]
impl IntoResponseParts for Replayed {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Self::Error> {
        if self.0 == distlock_fence::Outcome::Replay {
            response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
        }
        Ok(response)
    }
}
