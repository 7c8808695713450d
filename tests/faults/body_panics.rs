//! After a panic of the body, the panic continues, and the lock is released.

use distlock::{LockError, LockManager, distributed_lock};
use distlock_tests::Backend;

distlock_tests::suite![an_annotated_body_that_panics_releases, a_panic_outside_a_task_releases];

#[distributed_lock(key = "job:<id>", manager = locks)]
async fn job(locks: LockManager, id: u32) -> Result<u32, LockError> {
    tokio::task::yield_now().await;
    panic!("job {id} panics");
}

async fn an_annotated_body_that_panics_releases(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    assert!(tokio::spawn(job(one, 7)).await.unwrap_err().is_panic());
    other.lock("job:7").wait(super::SOON).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean("job:7").await;
}

async fn a_panic_outside_a_task_releases(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let runtime = tokio::runtime::Handle::current();
    let panicked = std::thread::spawn(move || {
        let _guard = runtime.block_on(one.lock("k").acquire()).unwrap();
        panic!("a thread that holds a guard panics");
    });
    assert!(panicked.join().is_err());
    other.lock("k").wait(super::SOON).acquire().await.unwrap().release().await.unwrap();
}
