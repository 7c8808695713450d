//! However the body ends, values that are dropped with it are still in its section: they see the lock as held here, and
//! the manager of their scope.

use std::time::Duration;

use distlock::testing::{Fault, fail_next};
use distlock::{LockError, LockManager, blocking, distributed_lock, is_held_here, with_manager};

use crate::support::{LONG, Log};

/// Records the scope in which it is dropped.
struct Witness {
    name: &'static str,
    log: Log,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let manager = LockManager::current();
        // Only the scope's manager holds this key.
        let marked = manager.is_ok_and(|manager| holds(&manager, "mark"));
        let held = is_held_here("k");
        self.log.add(format!(
            "{}: {}, {}",
            self.name,
            if marked { "its manager" } else { "another" },
            if held { "held" } else { "not held" }
        ));
    }
}

/// The memory backend replies without a wait.
fn holds(manager: &LockManager, key: &str) -> bool {
    let mut attempt = std::pin::pin!(manager.lock(key).no_wait().try_acquire());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match attempt.as_mut().poll(&mut context) {
        std::task::Poll::Ready(guard) => guard.unwrap().is_none(),
        std::task::Poll::Pending => panic!("an attempt on the memory backend waited"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Completes,
    IsDropped,
    Panics,
    IsLost,
}

async fn ends(end: End) {
    match end {
        End::Completes => {}
        End::IsDropped | End::IsLost => std::future::pending().await,
        End::Panics => panic!("on purpose"),
    }
}

type Shape = fn(
    End,
    Witness,
    (Witness, Witness),
    Log,
) -> std::pin::Pin<Box<dyn Future<Output = Result<(), LockError>>>>;

macro_rules! shapes {
    ($($name:ident($($options:tt)*) $pattern:pat => $use:expr;)*) => {
        $(
            #[distributed_lock(key = "k", $($options)*)]
            async fn $name(end: End, a: Witness, $pattern: (Witness, Witness), log: Log) -> Result<(), LockError> {
                let _local = Witness { name: "local", log };
                let _used = $use;
                ends(end).await;
                drop(a);
                Ok(())
            }
        )*
        const SHAPES: &[(&str, Shape)] = &[
            $((stringify!($name), |end, a, pair, log| Box::pin($name(end, a, pair, log))),)*
            ("boxed", |end, a, pair, log| boxed(end, a, pair, log)),
            ("by_hand", |end, a, pair, log| Box::pin(by_hand(end, a, pair, log))),
        ];
    };
}

shapes! {
    plain() (b, c) => (&b.name, &c.name);
    left_behind() (b, _) => &b.name;
    with_guard(guard = guard) (b, c) => (&guard, &b.name, &c.name);
    with_on_busy(on_busy = Ok(())) (b, c) => (&b.name, &c.name);
    with_when(when = !b.name.is_empty()) (b, c) => (&b.name, &c.name);
    named_in_front(label = "l", when = !b.name.is_empty()) (b, _) => &b.name;
    mentioned_nowhere() _ => 0;
}

#[distributed_lock(key = "k")]
fn boxed(
    end: End,
    a: Witness,
    pair: (Witness, Witness),
    log: Log,
) -> std::pin::Pin<Box<dyn Future<Output = Result<(), LockError>>>> {
    Box::pin(async move {
        let _local = Witness { name: "local", log };
        let _moved = (&a, &pair);
        ends(end).await;
        Ok(())
    })
}

async fn by_hand(end: End, a: Witness, pair: (Witness, Witness), log: Log) -> Result<(), LockError> {
    let body = async move |_| {
        let _local = Witness { name: "local", log };
        let _moved = (&a, &pair);
        ends(end).await;
    };
    LockManager::current()?.lock("k").run(body).await
}

fn witnesses(log: &Log) -> (Witness, (Witness, Witness)) {
    let witness = |name| Witness { name, log: log.clone() };
    (witness("a"), (witness("b"), witness("c")))
}

#[tokio::test]
async fn whatever_ends_the_body() {
    for (name, shape) in SHAPES {
        for end in [End::Completes, End::IsDropped, End::Panics, End::IsLost] {
            let (log, manager) = (Log::default(), LockManager::in_memory());
            let _mark = manager.lock("mark").acquire().await.unwrap();
            if end == End::IsLost {
                fail_next(&manager, "k", Fault::Lost);
            }
            let (a, pair) = witnesses(&log);
            let call = tokio::task::LocalSet::new();
            let work = with_manager(manager.clone(), shape(end, a, pair, log.clone()));
            let patience = if end == End::IsDropped { Duration::from_millis(20) } else { LONG };
            let result = call
                .run_until(async { tokio::task::spawn_local(tokio::time::timeout(patience, work)).await });
            match (end, result.await) {
                (End::Completes, Ok(Ok(Ok(())))) | (End::IsDropped, Ok(Err(_))) => {}
                (End::Panics, Err(panicked)) if panicked.is_panic() => {}
                (End::IsLost, Ok(Ok(Err(LockError::Lost { .. })))) => {}
                (_, result) => panic!("{name} {end:?}: {result:?}"),
            }
            let held = if end == End::IsLost { "not held" } else { "held" };
            let entries = log.entries();
            // A body whose lock is lost at once never begins.
            assert!(entries.len() >= 3, "{name} {end:?}: {entries:?}");
            for entry in &entries {
                assert!(entry.ends_with(&format!("its manager, {held}")), "{name} {end:?}: {entries:?}");
            }
        }
    }
}

#[distributed_lock(key = "k")]
fn on_a_thread(panics: bool, a: Witness, (b, _): (Witness, Witness), log: Log) -> Result<(), LockError> {
    let _local = Witness { name: "local", log };
    let _used = (&a, &b);
    assert!(!panics, "on purpose");
    Ok(())
}

#[distributed_lock(key = "k", when = !b.name.is_empty())]
fn in_front_on_a_thread(
    panics: bool,
    a: Witness,
    (b, _): (Witness, Witness),
    log: Log,
) -> Result<(), LockError> {
    let _local = Witness { name: "local", log };
    let _used = (&a, &b);
    assert!(!panics, "on purpose");
    Ok(())
}

#[test]
fn the_same_on_a_thread() {
    for call in [on_a_thread, in_front_on_a_thread] {
        for panics in [false, true] {
            let (log, manager) = (Log::default(), blocking::LockManager::in_memory());
            let _mark = manager.lock("mark").acquire().unwrap();
            let (a, pair) = witnesses(&log);
            let inside = log.clone();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                blocking::with_manager(manager.clone(), || call(panics, a, pair, inside))
            }));
            assert_eq!(result.is_err(), panics);
            let entries = log.entries();
            assert_eq!(entries.len(), 4, "{entries:?}");
            assert!(entries.iter().all(|entry| entry.ends_with("its manager, held")), "{entries:?}");
        }
    }
}

/// A manager alone, without a lock.
#[tokio::test]
async fn work_that_is_given_up_keeps_its_manager_until_it_is_gone() {
    let (log, manager) = (Log::default(), LockManager::in_memory());
    let _mark = manager.lock("mark").acquire().await.unwrap();
    let witness = Witness { name: "work", log: log.clone() };
    let work = with_manager(manager.clone(), async move {
        let _witness = witness;
        std::future::pending::<()>().await;
    });
    assert!(tokio::time::timeout(Duration::from_millis(5), work).await.is_err());
    assert_eq!(log.entries(), ["work: its manager, not held"]);
}

/// A future that outlives the thread-locals of the thread on which it is dropped.
#[test]
fn a_future_may_be_dropped_when_its_thread_ends() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<std::pin::Pin<Box<dyn Future<Output = ()>>>>> = const { std::cell::RefCell::new(None) };
    }
    let ended = std::thread::spawn(|| {
        // Created first, and therefore destroyed last.
        KEPT.set(None);
        let manager = LockManager::in_memory();
        let mut work: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            drop(manager.clone().lock("k").run(async |_| std::future::pending::<()>().await).await)
        });
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(work.as_mut().poll(&mut context).is_pending());
        KEPT.set(Some(work));
    });
    ended.join().unwrap();
}
