//! The expansion cannot allow forbidden lints, and does not need to.

use distlock::LockManager;

use functions::{nothing, panics_on_a_thread, returns_by_itself, value};

// A separate module, because `#[tokio::test]` allows some of them.
mod functions {
    #![forbid(warnings, unused, unreachable_code)]

    use distlock::{LockError, LockManager, distributed_lock};

    #[distributed_lock(key = "k", wait = "0s", on_busy = return Ok(0))]
    pub(super) async fn returns_by_itself() -> Result<u8, LockError> {
        Ok(1)
    }

    #[distributed_lock(key = "k", wait = "0s", on_busy = Ok(0))]
    pub(super) async fn value(text: String, _unused: u8) -> Result<usize, LockError> {
        Ok(text.len())
    }

    #[distributed_lock(key = "k", wait = "0s", on_busy = return, on_error = |error| panic!("{error}"))]
    pub(super) async fn nothing(runs: &mut u8) {
        *runs += 1;
    }

    #[distributed_lock(key = "k", wait = "0s", on_busy = panic!("busy"), manager = manager)]
    pub(super) fn panics_on_a_thread(manager: &LockManager) -> Result<u8, LockError> {
        Ok(1)
    }
}

#[tokio::test]
async fn they_all_run() {
    let manager = LockManager::in_memory();
    distlock::with_manager(manager.clone(), async {
        let mut runs = 0;
        assert_eq!(returns_by_itself().await.unwrap(), 1);
        assert_eq!(value("x".to_owned(), 1).await.unwrap(), 1);
        nothing(&mut runs).await;
        assert_eq!(panics_on_a_thread(&manager).unwrap(), 1);
        assert_eq!(runs, 1);

        let guard = manager.lock("k").acquire().await.unwrap();
        assert_eq!(returns_by_itself().await.unwrap(), 0);
        assert_eq!(value("x".to_owned(), 1).await.unwrap(), 0);
        nothing(&mut runs).await;
        assert_eq!(runs, 1);
        guard.release().await.unwrap();
    })
    .await;
}
