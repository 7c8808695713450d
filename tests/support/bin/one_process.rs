//! A process whose fork or end is tested: `one-process forked URL`, `one-process short-lived URL WAY KEY`,
//! `one-process forked-while-polled`, `one-process forked-from-a-file URL`,
//! `one-process many-managers COUNT DESCRIPTORS`, `one-process nested URL HELD WANTED`.
//!
//! Prints `ok` on success. A failure is a panic with another exit status.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod caller_polled;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use distlock::blocking::{Guard, LockManager};
use distlock::{Held, LockError};
use fork::Fork;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LONG: Duration = Duration::from_secs(600);
/// The limit for an immediate result on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(5);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["forked", url] => forked(url),
        ["forked-while-polled"] => caller_polled::forked_while_polled(),
        ["forked-from-a-file", url] => forked_from_a_file(url),
        ["short-lived", url, way, key] => short_lived(url, way, key),
        ["many-managers", count, descriptors] => {
            many_managers(count.parse().unwrap(), descriptors.parse().unwrap());
        }
        ["nested", url, held, wanted] => nested(url, held, wanted),
        _ => panic!("unknown command {words:?}"),
    }
}

/// Holds one lock. When a line arrives, requests another one inside, and prints the result.
fn nested(url: &str, held: &str, wanted: &str) {
    let manager = LockManager::builder().url(url).break_deadlocks(true).connect_blocking().unwrap();
    let section = manager.lock(held).ttl(LONG).run(|_| {
        println!("holds");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        manager.lock(wanted).ttl(LONG).wait(LONG).run(|_| ())
    });
    match section.unwrap() {
        Ok(()) => println!("ok"),
        Err(LockError::WouldDeadlock { deadlock: Some(deadlock), .. }) => println!("{deadlock}"),
        Err(error) => panic!("{error}"),
    }
}

/// The requests and guards of a process when it forks.
struct InHand<W> {
    manager: LockManager,
    guards: [Guard; 3],
    waiting: Pin<Box<W>>,
    /// Its lock was acquired, and it was not polled since then.
    acquired: Pin<Box<W>>,
    never_polled: Pin<Box<dyn Future<Output = LockError>>>,
    /// Was polled.
    lost: Pin<Box<dyn Future<Output = LockError>>>,
    held: Held,
}

/// Forks during sections of another thread, so that mutexes of the library may be locked at that moment.
fn forked(url: &str) {
    let manager = LockManager::connect(url).unwrap();
    // The channel has a mutex, too.
    let _events = manager.events();
    let stop = Arc::new(AtomicBool::new(false));
    let busy = {
        let (manager, stop) = (manager.clone(), stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                for n in 0..50 {
                    manager.lock(format!("busy{n}")).warn_hold(LONG).run(|_| ()).unwrap();
                }
            }
        })
    };
    for _ in 0..10 {
        fork_once(&manager, || ());
    }
    stop.store(true, Ordering::SeqCst);
    busy.join().unwrap();
    // Not while threads are working, because other libraries that a new runtime uses may not support it.
    fork_once(&manager, start_anew);
    println!("ok");
}

fn fork_once(manager: &LockManager, then: fn()) {
    let lock = |key: &str| manager.lock(key).ttl(Duration::from_secs(3)).warn_hold(LONG).acquire().unwrap();
    let guards = [lock("a"), lock("b"), lock("c")];
    let asynchronous = distlock::LockManager::from(manager.clone());
    let mut waiting = Box::pin(asynchronous.lock("a").wait(LONG).acquire());
    assert!(poll_once(waiting.as_mut()).is_pending());
    let before = lock("d");
    let mut acquired = Box::pin(asynchronous.lock("d").ttl(Duration::from_secs(3)).wait(LONG).acquire());
    assert!(poll_once(acquired.as_mut()).is_pending());
    before.release().unwrap();
    let never_polled: Pin<Box<dyn Future<Output = LockError>>> = Box::pin(guards[0].lost());
    let mut lost: Pin<Box<dyn Future<Output = LockError>>> = Box::pin(guards[1].lost());
    assert!(poll_once(lost.as_mut()).is_pending());
    let section = manager.lock("section").run(|held| {
        let in_hand =
            InHand { manager: manager.clone(), guards, waiting, acquired, never_polled, lost, held };
        match fork::fork().unwrap() {
            Fork::Child => {
                watch_out();
                in_the_child(in_hand);
                then();
                // Exits without dropping the values in scope, because they are copies of the parent's values.
                std::process::exit(0);
            }
            Fork::Parent(child) => {
                assert_eq!(fork::waitpid(child).unwrap(), 0, "the child");
                in_the_parent(in_hand);
            }
        }
    });
    section.unwrap();
}

/// A child does not open a file of locks that its parent has locked, and the parent's locks stay.
fn forked_from_a_file(url: &str) {
    let manager = LockManager::connect(url).unwrap();
    let guard = manager.lock("a").acquire().unwrap();
    match fork::fork().unwrap() {
        Fork::Child => {
            watch_out();
            is_told(LockManager::connect(url));
            std::process::exit(0);
        }
        Fork::Parent(child) => assert_eq!(fork::waitpid(child).unwrap(), 0, "the child"),
    }
    guard.extend(LONG).unwrap();
    guard.release().unwrap();
    println!("ok");
}

/// Ends a child that hangs.
fn watch_out() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        std::process::exit(9);
    });
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn is_told<T: std::fmt::Debug>(result: Result<T, LockError>) {
    let error = result.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("forked"), "{error}");
}

fn in_the_child<W: Future<Output = Result<distlock::Guard, LockError>>>(in_hand: InHand<W>) {
    let InHand { manager, guards: [a, b, c], mut waiting, mut acquired, mut never_polled, mut lost, held } =
        in_hand;
    let began = Instant::now();
    is_told(manager.lock("free").wait(LONG).acquire());
    is_told(manager.lock("free").try_acquire());
    is_told(manager.lock("free").wait_forever().run(|_| ()));
    is_told(manager.lock_all(["x", "y"]).acquire());
    is_told(manager.inspect("a"));
    is_told(manager.force_release("a"));
    assert!(!a.is_held() && !held.is_held() && a.remaining().is_zero());
    is_told(a.check());
    is_told(held.check());
    is_told(a.extend(LONG));
    is_told(a.release());
    drop(b);
    for waiting in [&mut waiting, &mut acquired] {
        let Poll::Ready(result) = poll_once(waiting.as_mut()) else { panic!("a wait goes on in the child") };
        is_told(result);
    }
    drop((waiting, acquired));
    assert!(poll_once(never_polled.as_mut()).is_ready(), "a hold is believed in the child");
    assert_eq!(manager.shutdown(LONG).held, 0);
    assert!(poll_once(lost.as_mut()).is_ready(), "a wait for a loss goes on in the child");
    drop((c, held, never_polled, lost, manager));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

/// The remedy in the error.
fn start_anew() {
    let anew = LockManager::in_memory();
    anew.lock("a").run(|_| ()).unwrap();
    let busy = anew.lock("a").acquire().unwrap();
    let refused = anew.lock("a").wait(Duration::from_millis(20)).acquire().unwrap_err();
    assert!(refused.is_busy(), "{refused}");
    drop(busy);
}

/// In the parent, everything is unchanged.
fn in_the_parent<W: Future<Output = Result<distlock::Guard, LockError>>>(in_hand: InHand<W>) {
    let InHand { manager, guards, mut waiting, mut acquired, held, .. } = in_hand;
    held.check().unwrap();
    for (guard, key) in guards.iter().zip(["a", "b", "c"]) {
        guard.check().unwrap();
        guard.extend(Duration::from_secs(3)).unwrap();
        assert!(manager.inspect(key).unwrap().is_some(), "`{key}` was taken away");
    }
    assert!(poll_once(waiting.as_mut()).is_pending());
    drop(waiting);
    let Poll::Ready(Ok(guard)) = poll_once(acquired.as_mut()) else { panic!("`d` was not acquired") };
    assert!(guard.is_held());
    drop(guard);
    for guard in guards {
        guard.release().unwrap();
    }
}

/// Ends immediately after it has released its lock.
fn short_lived(url: &str, way: &str, key: &str) {
    match way {
        "dropped" => {
            let manager = LockManager::connect(url).unwrap();
            let guard = manager.lock(key).ttl(LONG).acquire().unwrap();
            println!("ok");
            drop(guard);
        }
        "dropped-in-a-runtime" => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let manager = distlock::LockManager::connect(url).await.unwrap();
                let _guard = manager.lock(key).ttl(LONG).acquire().await.unwrap();
                println!("ok");
            });
        }
        "panics" => {
            let manager = LockManager::connect(url).unwrap();
            println!("ok");
            manager.lock(key).ttl(LONG).run(|_| panic!("on purpose")).unwrap();
        }
        _ => panic!("unknown way {way}"),
    }
}

/// All managers work at the same time, with this many descriptors for the whole process.
fn many_managers(count: usize, descriptors: u64) {
    let limit = Rlimit { current: Some(descriptors), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let managers: Vec<LockManager> = (0..count).map(|_| LockManager::in_memory()).collect();
    let held: Vec<Guard> = managers.iter().map(|manager| manager.lock("k").acquire().unwrap()).collect();
    // The timers work, too.
    for manager in &managers {
        let refused = manager.lock("k").wait(Duration::from_millis(1)).acquire().unwrap_err();
        assert!(refused.is_busy(), "{refused}");
    }
    drop(held);
    println!("ok");
}
