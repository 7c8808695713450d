//! `on_error`: functions that return something other than a `Result`.

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::locked;

fn describe(error: LockError) -> String {
    error.to_string()
}

#[distributed_lock(key = "k", wait = "0s", on_error = describe)]
async fn by_path() -> String {
    "done".to_owned()
}

#[distributed_lock(key = "k", wait = "0s", on_error = |error| if error.is_busy() { Some(id) } else { None })]
async fn by_closure(id: u64) -> Option<u64> {
    Some(0)
}

#[distributed_lock(key = "k", wait = "0s", on_error = |_error| ())]
async fn nothing() {}

#[distributed_lock(key = "k", wait = "0s", on_error = |_error| ())]
async fn explicit_nothing() -> () {}

#[distributed_lock(key = "k", wait = "0s", on_error = |error| error.to_string())]
async fn opaque() -> impl std::fmt::Display {
    if false {
        return "early".to_owned();
    }
    "done".to_owned()
}

#[distributed_lock(key = "k", wait = "0s", on_error = |error| Err(error.to_string()))]
async fn a_result_all_the_same() -> Result<(), String> {
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s", on_error = |error| error.is_busy(), manager = manager)]
fn on_a_thread(manager: &LockManager) -> bool {
    false
}

#[distributed_lock(key = "k", wait = "0s", on_error = |error| panic!("{error}"), manager = manager)]
fn nothing_on_a_thread(manager: &LockManager) {
    let _ = manager;
}

#[tokio::test]
async fn it_makes_the_whole_value() {
    assert!(by_path().await.contains("no lock manager"));
    assert_eq!(by_closure(1).await, None);
    locked(async {
        assert_eq!(by_path().await, "done");
        assert_eq!(by_closure(1).await, Some(0));
        assert_eq!(opaque().await.to_string(), "done");
        let manager = LockManager::current().unwrap();
        assert!(!on_a_thread(&manager));
        nothing_on_a_thread(&manager);
        let _guard = manager.lock("k").acquire().await.unwrap();
        assert!(by_path().await.contains("busy"));
        assert_eq!(by_closure(1).await, Some(1));
        nothing().await;
        explicit_nothing().await;
        assert!(opaque().await.to_string().contains("busy"));
        assert!(a_result_all_the_same().await.unwrap_err().contains("busy"));
        assert!(on_a_thread(&manager));
    })
    .await;
}
