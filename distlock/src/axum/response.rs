//! Errors as responses.

use axum_core::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use crate::error::LockError;
use distlock_fence::FenceError;

/// The text for a client. Nothing in it has to be escaped.
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) detail: &'static str,
}

impl Problem {
    const MAYBE_EXECUTED: (StatusCode, &str, &str) = (
        StatusCode::SERVICE_UNAVAILABLE,
        "outcome_unknown",
        "The request may have been executed. Check the data before you retry.",
    );

    fn of(error: &LockError) -> Problem {
        let (status, code, detail) = match error {
            LockError::Busy { .. } => {
                (StatusCode::CONFLICT, "busy", "The resource is in use. Try again later.")
            }
            LockError::Lost { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "outcome_unknown",
                "The request was interrupted. Check the data before you retry.",
            ),
            error if error.is_unconfirmed() => Problem::MAYBE_EXECUTED,
            LockError::Unavailable { .. } => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The lock server is unreachable. Nothing was done.",
            ),
            LockError::Closed => {
                (StatusCode::SERVICE_UNAVAILABLE, "closed", "This server is shutting down. Nothing was done.")
            }
            LockError::Fence(error) => return Problem::of_fence(error),
            LockError::InvalidKey { .. } => {
                (StatusCode::BAD_REQUEST, "invalid_key", "A value in the request cannot be locked.")
            }
            LockError::InvalidTicket { .. } => (
                StatusCode::CONFLICT,
                "invalid_ticket",
                "The lock of the ticket is no longer held. Nothing was done.",
            ),
            LockError::WrongKind { .. }
            | LockError::WouldDeadlock { .. }
            | LockError::InvalidOptions { .. }
            | LockError::NotInitialized => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal server error.")
            }
        };
        Problem { status, code, detail }
    }

    fn of_fence(error: &FenceError) -> Problem {
        let (status, code, detail) = match error {
            FenceError::OutcomeUnknown { .. } => Problem::MAYBE_EXECUTED,
            FenceError::OtherArguments { .. } => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "other_arguments",
                "The key was used for another request. Nothing was done.",
            ),
            FenceError::TooLarge { .. } | FenceError::Unreadable { .. } => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal server error.")
            }
            _ => (StatusCode::SERVICE_UNAVAILABLE, "not_committed", "The request failed. Nothing was done."),
        };
        Problem { status, code, detail }
    }

    /// A document as in RFC 9457. `retry_after`: seconds.
    pub(super) fn response(self, retry_after: Option<u64>) -> Response {
        let Problem { status, code, detail } = self;
        let title = status.canonical_reason().unwrap_or_default();
        let mut body = format!(
            r#"{{"type":"about:blank","title":"{title}","status":{},"detail":"{detail}","code":"{code}""#,
            status.as_u16()
        );
        if let Some(seconds) = retry_after {
            body.push_str(&format!(r#","retry_after":{seconds}"#));
        }
        body.push('}');
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Problem details of RFC 9457: see [the module](crate::axum#the-responses). Feature `axum`.
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let retry_after = self.retry_after().map(|after| after.as_secs());
        let mut response = Problem::of(&self).response(retry_after);
        response.extensions_mut().insert(self);
        response
    }
}
