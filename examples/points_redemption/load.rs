//! Many requests at the same moment, spread over the instances, and their answers.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::task::JoinSet;

type HttpClient = Client<HttpConnector, Empty<&'static [u8]>>;

/// How the requests were answered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) redeemed: usize,
    pub(crate) refused: usize,
    pub(crate) busy: usize,
    pub(crate) errors: usize,
    pub(crate) time: Duration,
}

pub(crate) async fn fire(instances: &[SocketAddr], path: &str, requests: usize) -> Answers {
    let client: HttpClient = Client::builder(TokioExecutor::new()).build_http();
    let start = Instant::now();
    let mut flying = JoinSet::new();
    for address in instances.iter().cycle().take(requests) {
        flying.spawn(post(client.clone(), format!("http://{address}{path}")));
    }
    let mut answers = Answers::default();
    while let Some(status) = flying.join_next().await {
        match status.ok().flatten() {
            Some(StatusCode::OK) => answers.redeemed += 1,
            Some(StatusCode::UNPROCESSABLE_ENTITY) => answers.refused += 1,
            Some(StatusCode::CONFLICT) => answers.busy += 1,
            _ => answers.errors += 1,
        }
    }
    answers.time = start.elapsed();
    answers
}

/// The status of the answer; `None` without an answer.
async fn post(client: HttpClient, url: String) -> Option<StatusCode> {
    let request = Request::post(url).body(Empty::new()).ok()?;
    Some(client.request(request).await.ok()?.status())
}
