//! Functions that are not async.

use std::sync::Arc;
use std::time::Duration;

use distlock::fence::blocking::FencedConnection;
use distlock::fence::{Fence, FenceError};
use distlock::{LockError, LockManager, distributed_lock};

use crate::support::SHORT;

#[distributed_lock(key = "k:<id>", manager = manager, wait = "60s")]
fn add(manager: &LockManager, id: u8, counter: &std::sync::Mutex<u32>) -> Result<(), LockError> {
    let before = *counter.lock().unwrap();
    std::thread::sleep(Duration::from_micros(100));
    *counter.lock().unwrap() = before + 1;
    Ok(())
}

#[distributed_lock(key = "k", manager = manager, wait = "40ms")]
fn briefly(manager: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k")]
fn current() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
fn borrows<'a>(
    manager: &LockManager,
    list: &'a mut [u8],
    f: impl FnOnce(&mut u8),
) -> Result<&'a mut u8, LockError> {
    f(&mut list[0]);
    Ok(&mut list[0])
}

#[test]
fn threads_exclude_each_other() {
    let (manager, counter) = (LockManager::in_memory(), Arc::new(std::sync::Mutex::new(0)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    add(&manager, 1, &counter).unwrap();
                }
            });
        }
    });
    assert_eq!(*counter.lock().unwrap(), 100);
}

#[test]
fn a_busy_lock_is_waited_for() {
    let manager = LockManager::in_memory();
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        let (held, wait) = std::sync::mpsc::channel();
        let (release, until) = std::sync::mpsc::channel::<()>();
        let other = &manager;
        scope.spawn(move || hold_until(other, &held, &until).unwrap());
        wait.recv().unwrap();
        assert!(briefly(&manager).unwrap_err().is_busy());
        assert!(started.elapsed() >= SHORT);
        release.send(()).unwrap();
    });
    briefly(&manager).unwrap();
}

#[distributed_lock(key = "k", manager = manager)]
fn hold_until(
    manager: &LockManager,
    held: &std::sync::mpsc::Sender<()>,
    until: &std::sync::mpsc::Receiver<()>,
) -> Result<(), LockError> {
    held.send(()).unwrap();
    until.recv().unwrap();
    Ok(())
}

#[test]
fn what_was_borrowed_can_be_returned() {
    let mut list = [1, 2];
    *borrows(&LockManager::in_memory(), &mut list, |first| *first += 1).unwrap() += 1;
    assert_eq!(list, [3, 2]);
}

#[distributed_lock(key = "k", manager = manager)]
fn with_a_manager_for_threads(manager: &distlock::blocking::LockManager) -> Result<bool, LockError> {
    Ok(distlock::is_held_here("k"))
}

/// A database without statements.
struct Connection;

impl FencedConnection for Connection {
    fn begin(&mut self, _: &Fence) -> Result<(), FenceError> {
        Ok(())
    }
    fn fence(&mut self, _: &Fence) -> Result<(), FenceError> {
        Ok(())
    }
    fn commit(&mut self, _: &Fence) -> Result<(), FenceError> {
        Ok(())
    }
    fn roll_back(&mut self) {}
    fn migrate(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

struct Shop {
    locks: LockManager,
    connection: std::sync::Mutex<Connection>,
    sold: u64,
}

impl Shop {
    #[distributed_lock(key = "k", manager = self.locks, transaction = _tx in self.connection)]
    fn sell(&mut self, _: u8, count: u64, _unused: String) -> Result<u64, LockError> {
        self.sold += count;
        Ok(self.sold)
    }
}

#[test]
fn the_body_of_a_transaction_changes_other_fields() {
    let connection = std::sync::Mutex::new(Connection);
    let mut shop = Shop { locks: LockManager::in_memory(), connection, sold: 1 };
    assert_eq!(shop.sell(0, 2, String::new()).unwrap(), 3);
}

#[test]
fn the_manager_of_a_thread() {
    let manager = distlock::blocking::LockManager::in_memory();
    assert!(with_a_manager_for_threads(&manager).unwrap());
    distlock::blocking::with_manager(manager, || current().unwrap());
}

#[tokio::test]
async fn a_task_may_call_it_as_often_as_it_likes() {
    let manager = LockManager::in_memory();
    for _ in 0..1000 {
        briefly(&manager).unwrap();
    }
}

#[tokio::test]
async fn the_scope_of_a_task_counts_for_what_it_calls() {
    assert!(matches!(current(), Err(LockError::NotInitialized)));
    distlock::with_manager(LockManager::in_memory(), async { current().unwrap() }).await;
}
