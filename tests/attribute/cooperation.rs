//! A task whose sections never wait still lets other tasks of its thread run.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use distlock::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "k", manager = manager)]
async fn section(manager: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_loop_of_sections_lets_other_tasks_run() {
    const MOST: usize = 10_000;
    let manager = LockManager::in_memory();
    let ran = Arc::new(AtomicBool::new(false));
    let other = ran.clone();
    tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
    for _ in 0..MOST {
        section(&manager).await.unwrap();
        if ran.load(Ordering::Relaxed) {
            return;
        }
    }
    panic!("{MOST} sections, and no other task has run");
}
