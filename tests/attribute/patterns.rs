//! Arguments that are patterns.

use distlock::{LockError, distributed_lock};

use crate::support::locked;

struct Path<T>(T);
struct User {
    id: u64,
    name: String,
    tags: [u8; 3],
}

#[distributed_lock(key = "<user_id>:<name>", guard = guard)]
async fn extractors(
    Path(user_id): Path<u64>,
    Path((name, mut count)): Path<(String, u8)>,
) -> Result<String, LockError> {
    count += 1;
    Ok(format!("{} {count} {name}", guard.key()) + &user_id.to_string())
}

#[distributed_lock(key = "<id>:<alias>:<first>:<last>", guard = guard)]
async fn structs(
    User { id, name: alias, tags: [first, .., last] }: User,
    User { name: ref borrowed, .. }: User,
) -> Result<String, LockError> {
    tokio::task::yield_now().await;
    Ok(format!("{} {borrowed} {alias} {id} {first} {last}", guard.key()))
}

#[distributed_lock(key = "<whole>:<first>", guard = guard)]
async fn at(whole @ 0..: u64, [first, rest @ ..]: [u8; 3], _: u8) -> Result<String, LockError> {
    Ok(format!("{} {whole} {first} {rest:?}", guard.key()))
}

#[distributed_lock(key = "<value>", guard = guard)]
async fn or((Ok(value) | Err(value)): Result<u8, u8>) -> Result<String, LockError> {
    Ok(format!("{} {value}", guard.key()))
}

#[distributed_lock(key = "<a>:<b>", guard = guard)]
async fn references(&a: &u8, &mut ref mut b: &mut u8) -> Result<String, LockError> {
    *b += 1;
    Ok(format!("{} {a} {b}", guard.key()))
}

#[distributed_lock(key = "<a>", manager = manager)]
fn on_a_thread(
    manager: &distlock::LockManager,
    (a, _): (u8, String),
    mut list: Vec<u8>,
) -> Result<Vec<u8>, LockError> {
    list.push(a);
    Ok(list)
}

#[distributed_lock(key = "<b>", guard = guard)]
async fn conditional(
    #[cfg(any())] a: u8,
    #[cfg(not(any()))] b: u8,
    #[cfg(any())] (c, _): (u8, u8),
    #[cfg(not(any()))] (d, _): (u8, u8),
    #[cfg_attr(all(), cfg(any()))] e: u8,
) -> Result<String, LockError> {
    #[cfg(any())]
    drop((a, c, e));
    Ok(format!("{} {b} {d}", guard.key()))
}

#[distributed_lock(key = "<b>", manager = manager)]
fn conditional_on_a_thread(
    manager: &distlock::LockManager,
    #[cfg(any())] a: u8,
    #[cfg(not(any()))] b: u8,
) -> Result<u8, LockError> {
    Ok(b)
}

#[tokio::test]
async fn parameters_with_a_condition() {
    locked(async { assert_eq!(conditional(1, (2, 3)).await.unwrap(), "1 1 2") }).await;
    assert_eq!(conditional_on_a_thread(&distlock::LockManager::in_memory(), 1).unwrap(), 1);
}

#[tokio::test]
async fn names_inside_patterns_can_stand_in_a_key() {
    locked(async {
        assert_eq!(extractors(Path(1), Path(("n".into(), 2))).await.unwrap(), "1:n 3 n1");
        let user = || User { id: 1, name: "n".into(), tags: [1, 2, 3] };
        assert_eq!(structs(user(), user()).await.unwrap(), "1:n:1:3 n n 1 1 3");
        assert_eq!(at(1, [2, 3, 4], 5).await.unwrap(), "1:2 1 2 [3, 4]");
        assert_eq!(or(Err(4)).await.unwrap(), "4 4");
        let mut b = 2;
        assert_eq!(references(&1, &mut b).await.unwrap(), "1:2 1 3");
        assert_eq!(b, 3);
    })
    .await;
}

#[test]
fn names_inside_patterns_on_a_thread() {
    let manager = distlock::LockManager::in_memory();
    assert_eq!(on_a_thread(&manager, (1, "x".into()), vec![0]).unwrap(), [0, 1]);
}
