//! `key!`.

use distlock::{LockError, LockManager, distributed_lock, key};

use crate::support::locked;

struct Order {
    id: u64,
}

impl Order {
    fn key(&self) -> Result<distlock::LockKey, LockError> {
        key!("order:<self.id>")
    }
}

#[distributed_lock(key = "order:<id>:<name>", guard = guard)]
async fn annotated(id: u64, name: &str) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[test]
fn named_values_and_variables_in_scope() {
    let (order, name) = (Order { id: 7 }, "a b");
    assert_eq!(key!("plain").unwrap().as_str(), "plain");
    assert_eq!(key!("order:<id>", id = order.id + 1).unwrap().as_str(), "order:8");
    assert_eq!(key!("order:<order.id>:<name>").unwrap().as_str(), "order:7:a%20b");
    assert_eq!(key!("<o.id>:<name:raw>", o = order, name = name).unwrap().as_str(), "7:a b");
    assert_eq!(order.key().unwrap().as_str(), "order:7");
    let (r#type, r#gen) = (3, 4);
    assert_eq!(key!("<type>:<gen>").unwrap().as_str(), "3:4");
    assert_eq!(key!("<type>:<gen>:<r#fn>", type = 1, gen = 2, r#fn = 3).unwrap().as_str(), "1:2:3");
    assert!(matches!(key!("<x>", x = ""), Err(LockError::InvalidKey { .. })));
}

/// As in the attribute: a constant in braces keeps the keys of a Redis Cluster in one slot.
#[test]
fn a_hash_tag_may_be_a_constant() {
    let id = 7;
    assert_eq!(key!("{orders}:<id>").unwrap().as_str(), "{orders}:7");
    assert_eq!(key!("{orders}:<order>", order = id).unwrap().as_str(), "{orders}:7");
}

#[test]
fn it_can_be_returned_from_a_block_with_temporaries() {
    let key = key!("<a>:<b>", a = String::from("x").trim(), b = format!("{}", 1),);
    assert_eq!(key.unwrap().as_str(), "x:1");
}

#[tokio::test]
async fn it_renders_what_the_attribute_renders() {
    locked(async {
        for name in ["ann", "a:b", "100 %", "{x}"] {
            let key = key!("order:<id>:<name>", id = 4).unwrap();
            assert_eq!(annotated(4, name).await.unwrap(), key.as_str());
        }
    })
    .await;
}

#[tokio::test]
async fn its_result_goes_straight_into_a_request() {
    let manager = LockManager::in_memory();
    let guard = manager.lock(key!("order:<id>", id = 4)).acquire().await.unwrap();
    assert_eq!(guard.key(), "order:4");
    let error = manager.lock(key!("order:<id>", id = "")).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }));
}
