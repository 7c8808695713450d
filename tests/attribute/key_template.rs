//! The keys that templates render.

use std::fmt;

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::locked;

struct Item {
    id: u64,
    pair: (u32, &'static str),
    r#type: char,
    r#gen: u8,
}

#[distributed_lock(key = "nightly-report", guard = guard)]
async fn constant() -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = "order:<user_id>:<name>", guard = guard)]
async fn arguments(user_id: u64, name: &str) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(
    key = "<item.id>:<item.pair.0>:<item.pair.1>:<item.type>:<item.gen>:<pair.1>",
    guard = guard
)]
async fn fields(item: &Item, pair: (u8, u8)) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = "{user:<user_id>}:order <<x>> <rest:raw>-<tail>", guard = guard)]
async fn literal_text(user_id: u64, rest: &str, tail: String) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = "<type>:<r#match>", guard = guard)]
async fn raw_names(r#type: u8, r#match: u8) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = "<N>:<value>", guard = guard)]
async fn constants<const N: usize>(value: impl fmt::Display) -> Result<String, LockError> {
    Ok(guard.key().to_owned())
}

#[tokio::test]
async fn text_arguments_and_fields() {
    locked(async {
        assert_eq!(constant().await.unwrap(), "nightly-report");
        assert_eq!(arguments(7, "ann").await.unwrap(), "order:7:ann");
        let item = Item { id: 1, pair: (2, "three"), r#type: 'x', r#gen: 9 };
        assert_eq!(fields(&item, (4, 5)).await.unwrap(), "1:2:three:x:9:5");
        assert_eq!(literal_text(1, "a:b", "c".into()).await.unwrap(), "{user:1}:order <x> a:b-c");
        assert_eq!(raw_names(1, 2).await.unwrap(), "1:2");
        assert_eq!(constants::<3>("v").await.unwrap(), "3:v");
    })
    .await;
}

#[tokio::test]
async fn values_are_escaped_so_that_none_can_forge_another_key() {
    locked(async {
        for (value, rendered) in [
            ("a:b", "a%3Ab"),
            ("100%", "100%25"),
            ("{x}", "%7Bx%7D"),
            ("a b\t", "a%20b%09"),
            ("a\u{7f}\u{a0}\u{2003}", "a%7F%C2%A0%E2%80%83"),
            ("ann@example.org", "ann@example.org"),
            ("0195f4a8-7c7a-7c3e-9d2b-1b1f0c3f5a10", "0195f4a8-7c7a-7c3e-9d2b-1b1f0c3f5a10"),
            ("ключ/é", "ключ/é"),
        ] {
            assert_eq!(arguments(1, value).await.unwrap(), format!("order:1:{rendered}"));
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_value_is_an_invalid_key() {
    locked(async {
        let error = arguments(1, "").await.unwrap_err();
        assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
        assert!(error.to_string().contains("<name>"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_long_value_is_rendered_whole_and_a_longer_one_refused() {
    locked(async {
        let long = "é".repeat(400);
        assert_eq!(arguments(1, &long).await.unwrap(), format!("order:1:{long}"));
        let mixed = "a:".repeat(200);
        assert_eq!(arguments(1, &mixed).await.unwrap(), format!("order:1:{}", "a%3A".repeat(200)));
        assert!(matches!(arguments(1, &"x".repeat(1100)).await, Err(LockError::InvalidKey { .. })));
    })
    .await;
}

struct Failing;

impl fmt::Display for Failing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[tokio::test]
async fn a_display_that_fails_is_an_invalid_key() {
    locked(async {
        assert!(matches!(constants::<1>(Failing).await, Err(LockError::InvalidKey { .. })));
    })
    .await;
}

#[distributed_lock(keys = [("a:<id>"), { "b:<id>" }, concat!("c", ':', "<id>")], guard = guard, manager = manager)]
async fn wrapped_literals(manager: &LockManager, id: u8) -> Result<Vec<String>, LockError> {
    Ok(guard.keys().map(str::to_owned).collect())
}

#[tokio::test]
async fn a_literal_that_is_wrapped_or_put_together_is_a_template() {
    assert_eq!(wrapped_literals(&LockManager::in_memory(), 7).await.unwrap(), ["a:7", "b:7", "c:7"]);
}

/// Each separator that a template may have: no two pairs of values give the same key.
#[test]
fn different_values_give_different_keys() {
    const CHARS: [char; 8] = ['a', '3', 'A', '%', ':', ' ', '{', '}'];
    let ones = CHARS.map(String::from);
    let twos = CHARS.iter().flat_map(|first| CHARS.map(|second| format!("{first}{second}")));
    let values: Vec<String> = ones.into_iter().chain(twos).collect();
    let mut keys = std::collections::HashSet::new();
    for a in &values {
        for b in &values {
            let rendered = [
                distlock::key!("1<a>:<b>"),
                distlock::key!("2<a> <b>"),
                distlock::key!("3<a>{<b>"),
                distlock::key!("4<a>}<b>"),
                distlock::key!("5<a>%:<b>"),
                distlock::key!("6<a>:%3A<b>"),
                distlock::key!("7<a>a {3<b>"),
            ];
            for key in rendered {
                let key = key.unwrap();
                assert!(keys.insert(key.as_str().to_owned()), "{key}: {a:?} {b:?}");
            }
        }
    }
    assert_eq!(keys.len(), 7 * values.len() * values.len());
}
