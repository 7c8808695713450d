//! The page beside clients that keep to no rule.

use distlock::blocking::LockManager;
use distlock_fixtures::{RogueClient, peak_memory, wait_until};
use distlock_tests::{BOUND, RedisServer};
use serde_json::Value;

use crate::web::server::{Killed, Page, distlock};

/// It needs about 15 MB when nobody sends it anything.
const MOST_MEMORY: u64 = 128 << 20;

fn looked(store: &RedisServer) -> (Value, u64) {
    let page = Page::serve(store, &[]);
    let told = page.first_event("accept: text/event-stream");
    (told, peak_memory(page.pid()).expect("it lives"))
}

#[test]
fn a_list_without_an_end_and_huge_fields_keep_nobody_from_the_page() {
    let store = RedisServer::start();
    let manager = LockManager::connect(store.url()).unwrap();
    let _guard = manager.lock("honest").acquire().unwrap();
    // What somebody waits for is shown first, however many locks there are.
    let mut waiter = distlock(&store, &["run", "--key", "honest", "--wait", "forever", "--", "true"]);
    let _waiter = Killed(waiter.spawn().unwrap());
    while manager.inspect("honest").unwrap().is_none_or(|lock| lock.waiting.is_empty()) {
        std::thread::yield_now();
    }
    let names: [fn(&RedisServer) -> RogueClient; 2] = [RogueClient::endless, RogueClient::with_huge_fields];
    for rogue in names {
        let rogue = rogue(&store);
        wait_until("the honest one has answered in time", BOUND * 4, || {
            let (told, memory) = looked(&store);
            // On a slow machine a look may be over before its list is.
            let notes = told["notes"].to_string();
            assert!(notes.contains(rogue.id()) || notes.contains("missing"), "{notes}");
            assert!(memory < MOST_MEMORY, "{} MiB", memory >> 20);
            told["locks"].as_array().unwrap().iter().any(|lock| lock["key"] == "honest")
        });
    }
}
