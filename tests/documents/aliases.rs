//! A search of the documentation for a word of another library finds the equivalent here.

use std::fs;
use std::path::Path;

use crate::documents::{read, root};

/// Words of Redisson, ShedLock, lock4j, node-redlock, redsync, redis-py, the standard library and Redis itself.
const WORDS: &[&str] = &[
    "acquire_timeout",
    "auto_renew",
    "blocking_timeout",
    "critical section",
    "election",
    "expire",
    "expiry",
    "fencing",
    "forceUnlock",
    "getFencedLock",
    "getLock",
    "getMultiLock",
    "getReadWriteLock",
    "getSemaphore",
    "isHeldByCurrentThread",
    "isLocked",
    "leader election",
    "lease",
    "leaseTime",
    "lease_time",
    "lockAtLeastFor",
    "lockAtMostFor",
    "lock_at_least_for",
    "lock_at_most_for",
    "LockAssert",
    "MutexGuard",
    "mutex",
    "NewMutex",
    "permits",
    "read lock",
    "redlock",
    "ReentrantLock",
    "retryCount",
    "retryDelay",
    "rwlock",
    "semaphore",
    "SET NX PX",
    "setnx",
    "tryLock",
    "try_lock",
    "unlock",
    "using",
    "waitTime",
    "wait_time",
    "watchdog",
];

/// The content of all `doc(alias(..))` in the sources below `folder`.
fn aliases(folder: &Path) -> String {
    let mut found = String::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found += &aliases(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = read(&path);
            let inside = source.split("doc(alias(").skip(1);
            found.extend(inside.filter_map(|rest| rest.split_once("))]")).map(|(words, _)| words));
        }
    }
    found
}

#[test]
fn words_of_other_libraries_are_found() {
    let aliases: String =
        ["distlock/src", "distlock-store/src"].map(|folder| aliases(&root().join(folder))).concat();
    let missing: Vec<_> = WORDS.iter().filter(|word| !aliases.contains(&format!("\"{word}\""))).collect();
    assert!(missing.is_empty(), "nothing in distlock has these words as `doc(alias)`: {missing:?}");
}
