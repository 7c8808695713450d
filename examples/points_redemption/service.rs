//! The HTTP service around the shop, and the status codes of its errors.

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    shop::{RedeemError, Shop},
    store::Account,
};

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/users/{user_id}", get(account).put(open_account))
        .route("/users/{user_id}/redeem", post(redeem))
        .route("/users/{user_id}/redeem-unguarded", post(redeem_unguarded))
        .with_state(shop)
}

async fn redeem(State(shop): State<Shop>, Path(user_id): Path<u64>) -> Result<Json<Value>, RedeemError> {
    Ok(Json(json!({ "points": shop.redeem(user_id).await? })))
}

async fn redeem_unguarded(
    State(shop): State<Shop>,
    Path(user_id): Path<u64>,
) -> Result<Json<Value>, RedeemError> {
    Ok(Json(json!({ "points": shop.redeem_unguarded(user_id).await? })))
}

async fn account(State(shop): State<Shop>, Path(user_id): Path<u64>) -> Result<Json<Account>, RedeemError> {
    shop.store.account(user_id).await?.map(Json).ok_or(RedeemError::UnknownUser(user_id))
}

#[derive(Deserialize)]
struct NewAccount {
    points: i64,
}

async fn open_account(
    State(shop): State<Shop>,
    Path(user_id): Path<u64>,
    Json(new): Json<NewAccount>,
) -> Result<StatusCode, RedeemError> {
    shop.store.open_account(user_id, new.points).await?;
    Ok(StatusCode::CREATED)
}

impl IntoResponse for RedeemError {
    fn into_response(self) -> Response {
        let status = match &self {
            RedeemError::NotEnoughPoints { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            RedeemError::UnknownUser(_) => StatusCode::NOT_FOUND,
            // Nothing was done: another redemption of this user is running.
            RedeemError::Lock(error) if error.is_busy() => StatusCode::CONFLICT,
            // Unreachable: nothing was done. Lost: the outcome is unknown, and the text says so.
            RedeemError::Lock(_) => StatusCode::SERVICE_UNAVAILABLE,
            // The text says whether something was done.
            RedeemError::Fence(_) => StatusCode::SERVICE_UNAVAILABLE,
            RedeemError::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}
