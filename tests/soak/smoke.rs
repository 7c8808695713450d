//! Tests of the soak itself: it runs to its end without findings on every store, and its judge finds the overlaps of
//! clients without locks. Only a longer run judges the locks. These runs are limited by numbers of sections, and slow
//! operations fail none of them.

#![allow(clippy::unwrap_used)]

use std::{
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

/// Two runs at a time, because the processes of one run use one core.
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
fn a_client_that_panics_ends_by_a_signal() {
    let outcome = Command::new(env!("CARGO_BIN_EXE_soak")).arg("client").output().unwrap();
    assert_eq!(outcome.status.code(), None, "{outcome:?}");
}

#[test]
fn overlaps_are_found_where_half_of_the_clients_lock_nothing() {
    soak("control");
}
