//! Metrics of locks, served to Prometheus.
//!
//! ```text
//! cargo run --release --example metrics                              embedded, nothing to install
//! cargo run --release --example metrics -- --url redis://127.0.0.1/  through Redis
//! curl http://127.0.0.1:9464/metrics
//! ```
//!
//! It works for 10 seconds (or `--seconds`) on locks that are sometimes busy. The functions to copy are `install` and
//! `routes`. `docs/grafana.json` is a dashboard for the metrics that they serve.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{process::ExitCode, time::Duration};

use axum::{Router, routing::get};
use clap::Parser;
use distlock::LockManager;
use distlock_examples::{AnyError, Store};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{net::TcpListener, task::JoinSet};

/// Metrics of locks, served to Prometheus
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Where the metrics are served, on 127.0.0.1
    #[arg(long, default_value_t = 9464)]
    port: u16,
    /// For how long
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// From half a millisecond to a minute.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// Before the first manager, so that nothing is missed. Histograms have buckets, which can be added up over instances.
fn install() -> Result<PrometheusHandle, AnyError> {
    let times = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(times, &BUCKETS)?;
    Ok(builder.install_recorder()?)
}

fn routes(metrics: PrometheusHandle) -> Router {
    Router::new().route("/metrics", get(move || async move { metrics.render() }))
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve(options: Options) -> Result<(), AnyError> {
    let Options { store, port, seconds } = options;
    let metrics = install()?;
    let manager = LockManager::connect(&store.url).await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("metrics: http://{}/metrics", listener.local_addr()?);
    let server = tokio::spawn(async move { axum::serve(listener, routes(metrics)).await });
    drop(tokio::time::timeout(Duration::from_secs(seconds), work(&manager, usize::MAX)).await);
    server.abort();
    Ok(())
}

/// Four tasks that want the same lock, and one that does not wait for it.
async fn work(manager: &LockManager, rounds: usize) {
    let mut tasks = JoinSet::new();
    for number in 0..5 {
        let manager = manager.clone();
        tasks.spawn(async move {
            for _ in 0..rounds {
                let request = manager.lock("stock:42").label("stock");
                let request = if number == 0 { request.no_wait() } else { request };
                let section = request.run(async |_| tokio::time::sleep(Duration::from_millis(2)).await);
                if section.await.is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_happens_is_served_by_label() {
        let metrics = install().unwrap();
        work(&LockManager::in_memory(), 20).await;
        let page = metrics.render();
        let value = |series: &str| -> f64 {
            let line =
                page.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{page}"));
            line.trim().parse().unwrap()
        };
        let acquired = value(r#"distlock_requests_total{label="stock",outcome="acquired"}"#);
        let busy = value(r#"distlock_requests_total{label="stock",outcome="busy"}"#);
        assert_eq!(acquired + busy, 100.0);
        assert!(busy > 0.0);
        assert_eq!(value(r#"distlock_hold_seconds_count{label="stock"}"#), acquired);
        assert_eq!(value(r#"distlock_held{label="stock"}"#), 0.0);
        assert_eq!(value(r#"distlock_waiting{label="stock"}"#), 0.0);
        assert!(page.contains(r#"distlock_wait_seconds_bucket{label="stock",outcome="acquired",le="+Inf"}"#));
        assert!(!page.contains("stock:42"), "keys are no labels");
    }
}
