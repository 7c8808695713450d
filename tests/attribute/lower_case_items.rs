//! Items with the names that the expansion could bind or uses.

use distlock::{LockManager, blocking};

use crate::support::locked;

/// Separate from the tests, whose own attribute binds such names.
mod items {
    #![allow(non_upper_case_globals, non_camel_case_types, dead_code, reason = "that is what is tested")]

    use distlock::{LockError, distributed_lock};

    static lock: u8 = 1;
    static held: u8 = 1;
    static body: u8 = 1;
    static acquired: u8 = 1;
    static manager: u8 = 1;
    static asked: u8 = 1;
    static entered: u8 = 1;
    static slot: u8 = 1;
    static lost: u8 = 1;
    static error: u8 = 1;
    static value: u8 = 1;
    static arg0: u8 = 1;
    static arg1: u8 = 1;
    static keys: u8 = 1;
    static expression: u8 = 1;
    static outside: u8 = 1;
    static inside: u8 = 1;
    const result: u8 = 1;
    const key: u8 = 1;
    struct when;
    struct bool;

    #[distributed_lock(key = "k")]
    pub(super) async fn plain() -> Result<u8, LockError> {
        Ok(lock + held + result)
    }

    #[distributed_lock(key = format!("k:{x}"), when = x < 2, on_busy = Ok(0))]
    pub(super) async fn busy((x, _): (u8, u8)) -> Result<u8, LockError> {
        Ok(x + value)
    }

    #[distributed_lock(keys = ["a", "b:<x>"], guard = _guard)]
    pub(super) async fn several(x: u8) -> Result<u8, LockError> {
        Ok(x)
    }

    #[distributed_lock(key = "k", when = x < 2)]
    pub(super) fn on_a_thread(x: u8) -> Result<u8, LockError> {
        Ok(x + manager)
    }

    #[distributed_lock(key = "k", on_lost = "continue")]
    pub(super) fn goes_on(_: u8) -> Result<u8, LockError> {
        Ok(arg0)
    }
}

use items::{busy, goes_on, on_a_thread, plain, several};

#[tokio::test]
async fn they_do_not_get_in_the_way() {
    locked(async {
        assert_eq!(plain().await.unwrap(), 3);
        assert_eq!(busy((1, 2)).await.unwrap(), 2);
        assert_eq!(several(1).await.unwrap(), 1);
    })
    .await;
}

#[test]
fn the_same_on_a_thread() {
    blocking::with_manager(LockManager::in_memory(), || {
        assert_eq!(on_a_thread(1).unwrap(), 2);
        assert_eq!(goes_on(1).unwrap(), 1);
    });
}
