//! A future whose name is that of a finished value.

use std::pin::Pin;

type Result<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Response<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[distlock::distributed_lock(key = "k", on_error = |_| Box::pin(async { 0 }))]
fn result() -> Result<u8> {
    Box::pin(async { 1 })
}

#[distlock::distributed_lock(key = "k", on_error = |_| Box::pin(async { 0 }))]
fn response() -> Response<u8> {
    Box::pin(async { 1 })
}

fn main() {}
