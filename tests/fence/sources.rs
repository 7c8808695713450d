//! The sources of blocking connections.

use std::sync::{Arc, Mutex};

use diesel::r2d2::ConnectionManager;
use distlock_fence::blocking::{self, Connections};
use distlock_fence::{Fence, FenceError};

use crate::library::Failure;

fn section(connections: &impl Connections, fence: &Fence) -> Result<(), Failure> {
    let mut connection = connections.connection(fence)?;
    blocking::transaction(fence, &mut *connection, |_| Ok(()))
}

fn is_usable(connections: &impl Connections) {
    blocking::migrate(&mut *connections.connection(&Fence::new("k", 2)).unwrap()).unwrap();
    section(connections, &Fence::new("k", 2)).unwrap();
    let late = section(connections, &Fence::new("k", 1));
    assert!(matches!(late, Err(Failure::Fence(FenceError::Stale { newest: 2, .. }))), "{late:?}");
}

#[test]
fn a_mutex_has_one_connection() {
    let connection = Arc::new(Mutex::new(rusqlite::Connection::open_in_memory().unwrap()));
    is_usable(&connection);
    // A panic rolls back, and poisons the mutex.
    let copy = Arc::clone(&connection);
    let panics = std::thread::spawn(move || {
        let mut connection = copy.connection(&Fence::new("k", 9)).unwrap();
        blocking::transaction(&Fence::new("k", 9), &mut *connection, |_| -> Result<(), Failure> {
            panic!("the body")
        })
    });
    assert!(panics.join().is_err());
    section(&connection, &Fence::new("k", 3)).unwrap();
}

#[test]
fn a_pool_has_many() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let manager = ConnectionManager::<diesel::SqliteConnection>::new(file.to_str().unwrap());
    is_usable(&diesel::r2d2::Pool::builder().max_size(2).build(manager).unwrap());
}
