//! `transaction`, `once` and `fence` of the attribute on functions that block a thread.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use distlock::fence::{Fence, FenceError, Outcome, blocking};
use distlock::{LockError, LockManager, distributed_lock, is_held_here};
use rusqlite::Connection;

use crate::library::Failure;

#[derive(Clone)]
struct Shop {
    locks: LockManager,
    connection: Arc<Mutex<Connection>>,
}

fn write(tx: &Connection, fence: &Fence) -> Result<(), Failure> {
    tx.execute("INSERT INTO done (token) VALUES (?1)", [i64::try_from(fence.token()).unwrap()])?;
    Ok(())
}

/// Writes, and waits until the test has changed the lock.
fn write_and_wait(
    tx: &Connection,
    fence: &Fence,
    begun: &mpsc::Sender<()>,
    end: &mpsc::Receiver<()>,
) -> Result<(), Failure> {
    write(tx, fence)?;
    begun.send(()).unwrap();
    end.recv().unwrap();
    Ok(())
}

impl Shop {
    fn open() -> Self {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE done (token INTEGER)").unwrap();
        blocking::migrate(&mut connection).unwrap();
        Shop { locks: LockManager::in_memory(), connection: Arc::new(Mutex::new(connection)) }
    }

    /// The number of calls that have written.
    fn written(&self) -> i64 {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.query_row("SELECT count(*) FROM done", [], |row| row.get(0)).unwrap()
    }

    #[distributed_lock(key = "k", manager = self.locks, transaction = tx in self.connection, fence = fence)]
    fn redeem(&self, result: Result<u64, Failure>) -> Result<u64, Failure> {
        assert!(is_held_here("k"));
        write(tx, &fence)?;
        result
    }

    #[distributed_lock(
        key = "k",
        manager = self.locks,
        transaction = tx in &*self.connection,
        once = "24h",
        once_of = gift,
        once_outcome = outcome,
        fence = fence
    )]
    fn redeem_once(&self, gift: u64, outcome: &mut Outcome) -> Result<u64, Failure> {
        write(tx, &fence)?;
        Ok(gift + fence.token())
    }

    #[distributed_lock(key = "k", manager = self.locks, transaction = tx in self.connection, fence = fence)]
    fn panics(&self) -> Result<(), Failure> {
        write(tx, &fence)?;
        panic!("the body")
    }

    #[distributed_lock(key = "k", manager = self.locks, transaction = tx in self.connection, fence = fence)]
    fn waits(&self, begun: mpsc::Sender<()>, end: mpsc::Receiver<()>) -> Result<(), Failure> {
        write_and_wait(tx, &fence, &begun, &end)
    }

    #[distributed_lock(
        key = "k",
        manager = self.locks,
        transaction = tx in self.connection,
        fence = fence,
        on_lost = "continue"
    )]
    fn goes_on(&self, begun: mpsc::Sender<()>, end: mpsc::Receiver<()>) -> Result<(), Failure> {
        write_and_wait(tx, &fence, &begun, &end)
    }

    #[distributed_lock(key = "k", manager = self.locks, fence = fence)]
    fn shows_its_fence(&self) -> Result<Fence, LockError> {
        Ok(fence)
    }
}

#[test]
fn ok_commits_and_err_rolls_back() {
    let shop = Shop::open();
    assert_eq!(shop.redeem(Ok(7)).unwrap(), 7);
    assert!(matches!(shop.redeem(Err(Failure::Refused)), Err(Failure::Refused)));
    assert_eq!(shop.written(), 1);
    let copy = shop.clone();
    std::thread::spawn(move || copy.panics()).join().unwrap_err();
    shop.redeem(Ok(7)).unwrap();
    assert_eq!(shop.written(), 2);
}

/// The lock may be lost by `distlock release`, for example. The body cannot be stopped, but its transaction is rolled
/// back.
#[test]
fn a_lock_that_is_lost_rolls_back() {
    type Waits = fn(&Shop, mpsc::Sender<()>, mpsc::Receiver<()>) -> Result<(), Failure>;
    for (function, stays) in [(Shop::waits as Waits, 0), (Shop::goes_on, 1)] {
        let shop = Shop::open();
        let (begun, has_begun) = mpsc::channel();
        let (ends, end) = mpsc::channel();
        let copy = shop.clone();
        let section = std::thread::spawn(move || function(&copy, begun, end));
        has_begun.recv().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(shop.locks.force_release("k")).unwrap();
        ends.send(()).unwrap();
        let result = section.join().unwrap();
        match stays {
            0 => assert!(matches!(&result, Err(Failure::Lock(error)) if error.is_lost()), "{result:?}"),
            // A committed call does not report a loss.
            _ => result.unwrap(),
        }
        assert_eq!(shop.written(), stays);
        shop.redeem(Ok(7)).unwrap();
    }
}

#[test]
fn a_holder_that_was_overtaken_is_refused_before_its_body() {
    let shop = Shop::open();
    let held = shop.shows_its_fence().unwrap();
    let later = Fence::new(held.key(), held.token() + 1_000_000_000);
    let nothing = |_: &mut Connection| Ok::<(), FenceError>(());
    blocking::transaction(&later, &mut *shop.connection.lock().unwrap(), nothing).unwrap();
    let late = shop.redeem(Ok(7));
    assert!(
        matches!(&late, Err(Failure::Fence(FenceError::Stale { newest, .. })) if *newest == later.token()),
        "{late:?}"
    );
    assert_eq!(shop.written(), 0);
}

#[test]
fn a_repeated_call_gets_the_first_result() {
    let shop = Shop::open();
    let mut outcome = Outcome::Replay;
    let first = shop.redeem_once(5, &mut outcome).unwrap();
    assert_eq!(outcome, Outcome::FirstRun);
    assert_eq!(shop.redeem_once(5, &mut outcome).unwrap(), first);
    assert_eq!(outcome, Outcome::Replay);
    let other = shop.redeem_once(6, &mut outcome);
    assert!(matches!(other, Err(Failure::Fence(FenceError::OtherArguments { .. }))), "{other:?}");
    assert_eq!(shop.written(), 1);
}

/// Of several threads with the same request, one runs.
#[test]
fn calls_at_once_run_once() {
    let shop = Shop::open();
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let shop = shop.clone();
            std::thread::spawn(move || shop.redeem_once(5, &mut Outcome::default()).unwrap())
        })
        .collect();
    let results: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
    assert!(results.windows(2).all(|two| two[0] == two[1]), "{results:?}");
    assert_eq!(shop.written(), 1);
}

/// The arguments are moved into the body, and dropped before the lock is released.
#[distributed_lock(key = "k:<user>", manager = locks, transaction = tx in connection, once = keep, guard = guard)]
fn handler(
    locks: LockManager,
    (connection, user): (Arc<Mutex<Connection>>, u64),
    keep: Duration,
    name: String,
) -> Result<String, Failure> {
    write(tx, &guard.fence()?)?;
    Ok(name)
}

#[test]
fn arguments_are_moved_and_taken_apart() {
    let shop = Shop::open();
    for name in ["first", "second"] {
        let (locks, connection) = (shop.locks.clone(), shop.connection.clone());
        let result = handler(locks, (connection, 1), Duration::from_secs(60), name.to_owned());
        assert_eq!(result.unwrap(), "first");
    }
    assert_eq!(shop.written(), 1);
}
