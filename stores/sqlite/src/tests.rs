//! Tests that need the file: other starts of the machine, the removal of rows, and other processes that use the file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;

use super::file::{Durable, LockFile};
use super::{acquire_each, clock, leases};
use distlock_store::engine::{Failure, Who};
use distlock_store::{Acquire, AcquireReply, KEPT, List, LockKind, Owner, Publish, Release, Renew};

const HOUR: Duration = Duration::from_secs(3_600);
const BUSY_TIMEOUT: Duration = Duration::from_millis(10);

struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Directory(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    /// Opens the file as a process does after this start of the machine.
    fn open_in(&self, boot: &str) -> LockFile {
        LockFile::open(&self.path(), BUSY_TIMEOUT, boot.to_owned()).unwrap()
    }

    fn open(&self) -> LockFile {
        self.open_in("this")
    }
}

fn late() -> i64 {
    i64::MAX
}

fn owner(number: u64) -> Owner {
    Owner::new("one", number)
}

fn fenced(key: &str, number: u64) -> Acquire {
    let mut request = Acquire::new(key, &owner(number), HOUR);
    request.fences = 1;
    request
}

fn of_kind(key: &str, number: u64, kind: LockKind) -> Acquire {
    let mut request = Acquire::new(key, &owner(number), HOUR);
    request.kind = kind;
    request
}

fn ask(file: &mut LockFile, request: &Acquire) -> AcquireReply {
    let each = acquire_each(file, late(), std::slice::from_ref(request), &Who::this_process());
    each.unwrap().pop().unwrap()
}

/// The token of a lock that was acquired.
fn token(file: &mut LockFile, request: &Acquire) -> u64 {
    match ask(file, request) {
        AcquireReply::Acquired { fence: Some(token) } => token,
        other => panic!("{other:?}"),
    }
}

fn publish(file: &mut LockFile, key: &str, number: u64) {
    let request = Publish::new(key, &owner(number), "a value");
    file.write(None, Durable::No, |tx, at| leases::publish(tx, at, &request)).unwrap();
}

fn published(file: &LockFile, key: &str) -> Option<String> {
    let found = file.read(|db, at| leases::with_published(db, key, leases::inspect(db, at, key)?)).unwrap();
    found.and_then(|lock| lock.details.into_iter().next()?.1.value)
}

fn release(file: &mut LockFile, request: &Release) -> bool {
    file.write(None, Durable::No, |tx, at| leases::release(tx, at, request)).unwrap()
}

fn rows(path: &Path) -> i64 {
    let db = Connection::open(path).unwrap();
    db.query_row("SELECT count(*) FROM distlock_lease_1", [], |row| row.get(0)).unwrap()
}

#[test]
fn a_start_of_the_machine_ends_every_lease_and_no_token_is_given_twice() {
    let directory = Directory::new();
    let before = token(&mut directory.open_in("before"), &fenced("k", 1));
    let mut after = directory.open_in("after");
    let renew = Renew::new("k", &owner(1), HOUR);
    assert!(!after.write(None, Durable::No, |tx, at| leases::renew(tx, at, &renew)).unwrap());
    assert!(!release(&mut after, &Release::new("k", &owner(1))));
    assert!(after.read(|db, at| leases::inspect(db, at, "k")).unwrap().is_none());
    assert!(token(&mut after, &fenced("k", 2)) > before);
    assert_eq!(rows(&directory.path()), 1);
}

#[test]
fn tokens_rise_if_the_rows_or_the_file_are_removed() {
    let directory = Directory::new();
    let mut last = 0;
    for number in 0..3 {
        let mut file = directory.open();
        let next = token(&mut file, &fenced("k", number));
        assert!(next > last, "{next} after {last}");
        last = next;
        if number == 0 {
            let db = Connection::open(directory.path()).unwrap();
            db.execute_batch("DELETE FROM distlock_fence_1; DELETE FROM distlock_lease_1").unwrap();
        } else {
            std::fs::remove_file(directory.path()).unwrap();
            assert!(!file.is_there());
            drop(file);
            for beside in ["locks.db-wal", "locks.db-shm"] {
                std::fs::remove_file(directory.0.path().join(beside)).unwrap();
            }
        }
    }
}

#[test]
fn tokens_rise_if_the_file_is_restored_from_a_copy() {
    let directory = Directory::new();
    let copy = directory.0.path().join("copy.db");
    let mut file = directory.open();
    let mut last = token(&mut file, &fenced("k0", 0));
    Connection::open(directory.path()).unwrap().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    for number in 1..3 {
        last = token(&mut file, &fenced(&format!("k{number}"), number));
    }
    drop(file);
    std::fs::rename(&copy, directory.path()).unwrap();
    for beside in ["locks.db-wal", "locks.db-shm"] {
        std::fs::remove_file(directory.0.path().join(beside)).unwrap();
    }
    let restored = token(&mut directory.open(), &fenced("k1", 3));
    assert!(restored > last, "{restored} after {last}");
}

#[test]
fn a_block_of_tokens_is_one_owners() {
    let directory = Directory::new();
    let mut file = directory.open();
    let mut request = fenced("k", 1);
    // The counter is then an hour ahead of the clock, so the tokens follow each other.
    request.fences = u32::MAX;
    let first = token(&mut file, &request);
    let other = first + u64::from(u32::MAX);
    assert_eq!(token(&mut file, &fenced("other", 2)), other);
    match ask(&mut file, &request) {
        AcquireReply::AlreadyHeld { fence } => assert_eq!(fence, Some(other + 1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn readers_share_and_a_limited_lock_has_so_many_holders() {
    let directory = Directory::new();
    let mut file = directory.open();
    for number in 0..3 {
        assert!(ask(&mut file, &of_kind("read", number, LockKind::Shared)).is_acquired());
    }
    assert!(matches!(ask(&mut file, &fenced("read", 9)), AcquireReply::Busy(_)));
    let limited = |number, max_holders| of_kind("limited", number, LockKind::Limited { max_holders });
    assert!(ask(&mut file, &limited(0, 2)).is_acquired() && ask(&mut file, &limited(1, 2)).is_acquired());
    assert!(matches!(ask(&mut file, &limited(2, 2)), AcquireReply::Busy(_)));
    let found = LockKind::Limited { max_holders: 2 };
    for wrong in [limited(2, 3), fenced("limited", 2), of_kind("limited", 2, LockKind::Shared)] {
        assert_eq!(ask(&mut file, &wrong), AcquireReply::WrongKind { found });
    }
    // Two holders release the key with a time for which it stays taken.
    for number in 0..2 {
        let mut request = Release::new("limited", &owner(number));
        request.keep = Some(HOUR);
        assert!(release(&mut file, &request) && !release(&mut file, &request));
    }
    assert!(matches!(ask(&mut file, &limited(3, 2)), AcquireReply::Busy(_)));
    let page = file.read(|db, at| leases::list(db, at, &List::new("", None, 1))).unwrap();
    assert!(page.more && page.locks[0].1.holders.iter().all(|(holder, _)| holder == KEPT), "{page:?}");
    let page = file.read(|db, at| leases::list(db, at, &List::new("r", Some("limited".into()), 9))).unwrap();
    let (key, lock) = &page.locks[0];
    assert_eq!((page.locks.len(), page.more, key.as_str(), lock.holders.len()), (1, false, "read", 3));
    let details = &lock.details[0].1;
    assert_eq!((details.who.pid, details.since.is_some()), (Some(std::process::id()), true));
}

#[test]
fn several_keys_are_taken_up_to_the_first_that_is_busy() {
    let directory = Directory::new();
    let mut file = directory.open();
    assert!(ask(&mut file, &fenced("b", 1)).is_acquired());
    let requests = ["a", "b", "c"].map(|key| Acquire::new(key, &owner(2), HOUR));
    let replies = acquire_each(&mut file, late(), &requests, &Who::this_process()).unwrap();
    assert!(replies[0].is_acquired() && matches!(replies[1], AcquireReply::Busy(_)), "{replies:?}");
    assert_eq!((replies.len(), rows(&directory.path())), (2, 2));
}

#[test]
fn what_is_locked_by_somebody_else_is_done_later_and_what_is_late_is_not_done() {
    let directory = Directory::new();
    let mut file = directory.open();
    let mut other = Connection::open(directory.path()).unwrap();
    let tx = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let request = [fenced("k", 1)];
    let busy = acquire_each(&mut file, late(), &request, &Who::this_process()).unwrap_err();
    assert!(format!("{busy:?}").contains("Later"), "{busy:?}");
    // A reader does not wait.
    assert!(file.read(|db, at| leases::inspect(db, at, "k")).unwrap().is_none());
    drop(tx);
    let late = acquire_each(&mut file, clock::now() - 1, &request, &Who::this_process()).unwrap_err();
    assert!(late.to_string().contains("for too long"), "{late}");
    assert_eq!(rows(&directory.path()), 0);
    assert!(ask(&mut file, &fenced("k", 1)).is_acquired());
}

#[test]
fn rows_of_leases_that_have_ended_are_removed_and_no_others() {
    let directory = Directory::new();
    for number in 0..3 {
        assert!(ask(&mut directory.open_in("before"), &fenced(&format!("k{number}"), number)).is_acquired());
    }
    let mut file = directory.open();
    assert!(ask(&mut file, &fenced("k0", 7)).is_acquired());
    assert!(file.read(leases::is_to_be_pruned).unwrap());
    assert_eq!(file.write(None, Durable::No, |tx, at| leases::prune(tx, at)).unwrap(), 2);
    assert!(!file.read(leases::is_to_be_pruned).unwrap());
    assert_eq!(rows(&directory.path()), 1);
}

#[test]
fn values_of_leases_that_have_ended_are_removed_and_no_others() {
    let directory = Directory::new();
    let mut file = directory.open();
    for number in 0..2 {
        let key = format!("k{number}");
        assert!(ask(&mut file, &fenced(&key, number)).is_acquired());
        publish(&mut file, &key, number);
    }
    assert!(!file.read(leases::is_to_be_pruned).unwrap());
    assert!(release(&mut file, &Release::new("k0", &owner(0))));
    assert!(file.read(leases::is_to_be_pruned).unwrap());
    file.write(None, Durable::No, |tx, at| leases::prune(tx, at)).unwrap();
    assert!(!file.read(leases::is_to_be_pruned).unwrap());
    assert_eq!(published(&file, "k1").as_deref(), Some("a value"));
}

/// The table of values is younger than the others.
#[test]
fn a_table_that_an_older_version_did_not_create_is_created() {
    let directory = Directory::new();
    drop(directory.open());
    Connection::open(directory.path()).unwrap().execute_batch("DROP TABLE distlock_value_1").unwrap();
    let mut file = directory.open();
    assert!(ask(&mut file, &fenced("k", 1)).is_acquired());
    publish(&mut file, "k", 1);
    assert_eq!(published(&file, "k").as_deref(), Some("a value"));
}

#[test]
fn the_log_is_found_behind_a_symbolic_link() {
    let (directory, elsewhere) = (Directory::new(), Directory::new());
    drop(elsewhere.open());
    std::os::unix::fs::symlink(elsewhere.path(), directory.path()).unwrap();
    let mut file = directory.open();
    assert!(ask(&mut file, &fenced("k", 1)).is_acquired());
    let log = std::fs::metadata(elsewhere.0.path().join("locks.db-wal")).unwrap();
    assert!(log.len() > 0 && file.log_length() == log.len(), "{} of {}", file.log_length(), log.len());
}

#[test]
fn the_log_is_written_back_and_no_process_closes_it_away() {
    let directory = Directory::new();
    let wal = directory.0.path().join("locks.db-wal");
    let (mut one, mut longest, mut shortened) = (directory.open(), 0, false);
    let big = "k".repeat(1_000);
    for number in 0..2_000 {
        let request = of_kind(&format!("{big}{number}"), number, LockKind::Exclusive);
        assert!(ask(&mut one, &request).is_acquired());
        one.shorten_log();
        let length = std::fs::metadata(&wal).unwrap().len();
        shortened |= length < longest;
        longest = longest.max(length);
        if shortened {
            break;
        }
    }
    assert!(shortened && longest < 8 * 1024 * 1024, "{longest}");
    drop(one);
    assert!(wal.exists());
}

/// Writes until the log has this length.
fn grow(file: &mut LockFile, to: u64) {
    let mut number = 0;
    while file.log_length() < to {
        number += 1;
        let request = of_kind(&format!("{to} {number}"), number, LockKind::Exclusive);
        assert!(ask(file, &request).is_acquired());
    }
}

/// A process that reads for a long time, as a backup does, does not delay each command.
#[test]
fn a_log_that_somebody_reads_is_written_back_later() {
    const MIB: u64 = 1024 * 1024;
    let directory = Directory::new();
    // If it waited for the reader, this test would not end.
    let mut file = LockFile::open(&directory.path(), HOUR, "this".to_owned()).unwrap();
    let reader = Connection::open(directory.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM distlock_lease_1").unwrap();
    grow(&mut file, 5 * MIB);
    file.shorten_log();
    reader.execute_batch("COMMIT").unwrap();
    grow(&mut file, 6 * MIB);
    file.shorten_log();
    assert!(file.log_length() >= 6 * MIB, "it is not tried again so soon");
    grow(&mut file, 11 * MIB);
    for number in 0..2 {
        file.shorten_log();
        assert!(ask(&mut file, &of_kind("short", number, LockKind::Shared)).is_acquired());
    }
    assert!(file.log_length() < MIB, "{}", file.log_length());
    // The limit is the first one again.
    grow(&mut file, 5 * MIB);
    file.shorten_log();
    assert!(ask(&mut file, &of_kind("short", 9, LockKind::Shared)).is_acquired());
    assert!(file.log_length() < MIB, "{}", file.log_length());
}

/// SQLite may damage a file that one process writes back while another one commits.
#[test]
fn the_log_is_not_written_back_while_another_process_writes() {
    let directory = Directory::new();
    let mut file = directory.open();
    let mut other = Connection::open(directory.path()).unwrap();
    grow(&mut file, 5 * 1024 * 1024);
    // This process loses its locks on the file by that, which changes nothing here.
    let content = || std::fs::read(directory.path()).unwrap();
    let before = content();
    let writing = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    file.shorten_log();
    assert!(content() == before, "it was written back");
    drop(writing);
    file.shorten_log();
    assert!(content() != before, "it was not written back");
}

#[test]
fn of_many_who_ask_at_once_for_new_keys_each_key_has_one() {
    let directory = Directory::new();
    let (won, wins) = mpsc::channel();
    thread::scope(|scope| {
        for client in 0..4 {
            let (won, directory) = (won.clone(), &directory);
            scope.spawn(move || {
                let path = directory.path();
                // The time is long, so the test does not depend on the speed of the machine.
                let mut file = loop {
                    match LockFile::open(&path, HOUR, "this".to_owned()) {
                        Ok(file) => break file,
                        Err(error) => assert!(format!("{error:?}").contains("Later"), "{error:?}"),
                    }
                };
                for key in 0..50 {
                    if ask(&mut file, &fenced(&key.to_string(), client)).is_acquired() {
                        won.send(key).unwrap();
                    }
                }
            });
        }
    });
    drop(won);
    let mut keys: Vec<i32> = wins.iter().collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..50).collect::<Vec<_>>());
}

/// As root, who may open any file, only the thread of the test becomes another user.
#[test]
fn a_file_that_the_user_may_not_open_is_refused_with_the_remedy() {
    let directory = Directory::new();
    drop(directory.open());
    fs::set_permissions(directory.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let path = directory.path();
    let opened = thread::spawn(move || {
        if geteuid().is_root() {
            let nobody = Uid::from_raw(65534);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        LockFile::open(&path, BUSY_TIMEOUT, "this".to_owned()).unwrap_err()
    });
    let error = opened.join().unwrap();
    assert_eq!(error.kind, Failure::Refused, "{error}");
    assert!(error.to_string().contains("permission to read and write"), "{error}");
}
