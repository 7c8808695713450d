//! The page with hostile clients on the same server.

use distlock::blocking::LockManager;
use distlock_fixtures::{eventually_blocking, peak_memory};
use distlock_tests::RedisServer;

use crate::web::server::{Killed, Page, distlock};

/// It needs about 15 MB without hostile clients.
const MOST_MEMORY: u64 = 160 << 20;

#[test]
fn thousands_of_strange_locks_and_huge_fields_keep_nobody_from_the_page() {
    let store = RedisServer::start();
    let manager = LockManager::connect(store.url()).unwrap();
    let guard = manager.lock("honest").acquire().unwrap();
    // A lock with a waiter is shown first, for any number of locks.
    let mut waiter = distlock(&store, &["run", "--key", "honest", "--wait", "forever", "--", "true"]);
    let _waiter = Killed(waiter.spawn().unwrap());
    eventually_blocking("it waits", || store.run::<u64>("LLEN dl1:q:honest") == 1);
    store.write_many(20_000);
    store.write_huge_fields("honest", &guard.owner());
    let page = Page::serve(&store, &[]);
    let told = page.first_event("accept: text/event-stream");
    let memory = peak_memory(page.pid()).expect("it lives");
    assert_eq!(told["locks"][0]["key"], "honest", "{}", told["locks"][0]);
    assert!(memory < MOST_MEMORY, "{} MiB", memory >> 20);
}
