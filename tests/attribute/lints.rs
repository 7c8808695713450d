//! The expansion causes no warning: every shape under every lint that could fire.

#![deny(warnings)]
#![deny(
    unused,
    unreachable_code,
    unused_braces,
    unused_parens,
    unused_mut,
    unused_variables,
    unused_qualifications,
    rust_2018_idioms,
    elided_lifetimes_in_paths,
    let_underscore_drop,
    single_use_lifetimes,
    trivial_casts,
    unused_lifetimes,
    unused_results,
    unreachable_pub
)]
#![deny(clippy::all, clippy::pedantic)]
#![deny(
    clippy::used_underscore_binding,
    clippy::items_after_statements,
    clippy::type_complexity,
    clippy::let_unit_value,
    clippy::needless_return,
    clippy::diverging_sub_expression,
    clippy::empty_loop,
    clippy::let_and_return,
    clippy::large_futures,
    clippy::shadow_unrelated,
    clippy::let_underscore_untyped,
    clippy::let_underscore_must_use,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable,
    clippy::question_mark_used,
    clippy::single_call_fn,
    clippy::future_not_send
)]
#![allow(
    clippy::question_mark_used,
    clippy::single_call_fn,
    clippy::missing_errors_doc,
    clippy::unused_async,
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::missing_panics_doc
)]

use std::collections::HashMap;

use distlock::{LockError, LockManager, distributed_lock};

/// One line, one expression.
#[distributed_lock(key = "<id>")]
async fn one_line(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

/// A body that begins with items.
#[distributed_lock(key = "k")]
async fn items_first(_unused: u8) -> Result<u8, LockError> {
    use std::convert::identity;
    fn double(x: u8) -> u8 {
        x * 2
    }
    Ok(identity(double(1)))
}

/// A body that never ends normally.
#[distributed_lock(key = "k")]
async fn always_returns(flag: bool) -> Result<u8, LockError> {
    if flag {
        return Ok(1);
    }
    loop {
        tokio::task::yield_now().await;
    }
}

/// A complex return type, where the lint is allowed.
#[allow(clippy::type_complexity)]
#[distributed_lock(key = "k")]
async fn complex()
-> Result<HashMap<String, Vec<Option<Box<dyn Fn(u8) -> Result<u8, String> + Send + Sync>>>>, LockError> {
    Ok(HashMap::new())
}

/// Nothing to return.
#[distributed_lock(key = "k", on_error = |_| ())]
async fn unit() {}

/// Nothing to return, in several statements.
#[distributed_lock(key = "k", wait = "0s", on_busy = (), on_error = |_| ())]
async fn unit_statements(list: &mut Vec<u8>) {
    list.push(1);
}

/// All options at once.
#[distributed_lock(key = "<id>:<text>", ttl = "10s", wait = "1s", guard = _guard, token = _token, on_busy = return Ok(String::new()), manager = manager)]
async fn everything(
    manager: &LockManager,
    id: u64,
    mut text: String,
    (_, _b): (u8, u8),
) -> Result<String, LockError> {
    text.push('x');
    Ok(format!("{id}{text}"))
}

/// On a thread.
#[distributed_lock(key = "<id>", manager = manager, when = id > 0)]
fn thread(manager: &LockManager, id: u64, _: String) -> Result<u64, LockError> {
    Ok(id)
}

/// A returned future.
#[distributed_lock(key = "<id>")]
fn future(id: u64) -> impl Future<Output = Result<u64, LockError>> + Send {
    async move { Ok(id) }
}

struct Service {
    manager: LockManager,
}

impl Service {
    #[distributed_lock(key = "k", manager = self.manager)]
    async fn method(&self, _name: &str) -> Result<&Self, LockError> {
        Ok(self)
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn boxed(&self, id: u64) -> Result<u64, LockError>;
}

#[async_trait::async_trait]
impl Boxed for Service {
    #[distributed_lock(key = "<id>", manager = self.manager)]
    async fn boxed(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

#[tokio::test]
async fn they_all_run() -> Result<(), LockError> {
    let manager = LockManager::in_memory();
    distlock::with_manager(manager.clone(), async {
        assert_eq!(one_line(1).await?, 1);
        assert_eq!(items_first(1).await?, 2);
        assert_eq!(always_returns(true).await?, 1);
        assert!(complex().await?.is_empty());
        unit().await;
        let mut list = Vec::new();
        unit_statements(&mut list).await;
        assert_eq!(list, [1]);
        assert_eq!(everything(&manager, 1, "a".to_owned(), (1, 2)).await?, "1ax");
        assert_eq!(thread(&manager, 1, String::new())?, 1);
        assert_eq!(future(1).await?, 1);
        let service = Service { manager: manager.clone() };
        drop(service.method("x").await?.manager.clone());
        assert_eq!(service.boxed(1).await?, 1);
        Ok(())
    })
    .await
}
