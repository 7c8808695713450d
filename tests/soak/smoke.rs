//! The soak itself works: it runs through and finds nothing on any store, and its judge finds what clients do that lock
//! nothing. How well locks fare is for a longer run to say: these are bounded by numbers of sections, and what takes
//! long fails none of them.

#![allow(clippy::unwrap_used)]

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

/// Two at a time: each run is as many processes as one core carries.
fn turn() -> MutexGuard<'static, ()> {
    static TURNS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    loop {
        for turn in &TURNS {
            match turn.try_lock() {
                Ok(turn) => return turn,
                // The run of another test has failed.
                Err(TryLockError::Poisoned(turn)) => return PoisonError::into_inner(turn),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

fn soak(store: &str) {
    let _turn = turn();
    let outcome = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--sections", "300", "--seed", "1", "--clients", "2", "--tasks", "12", "--store", store])
        .output()
        .unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
}

macro_rules! smoke {
    ($($store:ident),+ $(,)?) => {
        $(#[test]
        fn $store() {
            soak(stringify!($store));
        })+
    };
}

mod a_short_soak_breaks_no_promise {
    use super::soak;

    smoke!(redis, quorum, postgres, mysql, etcd, zookeeper, memcached);
}

#[test]
fn overlaps_are_found_where_half_of_the_clients_lock_nothing() {
    soak("control");
}
