//! Every argument is dropped before the lock is released, for example a transaction that commits in `Drop`.

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::Log;

/// Records, when it is dropped, whether the lock is held.
struct Witness {
    manager: LockManager,
    log: Log,
    name: &'static str,
}

impl Witness {
    fn new(manager: &LockManager, log: &Log, name: &'static str) -> Self {
        Witness { manager: manager.clone(), log: log.clone(), name }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let held = is_held(&self.manager);
        self.log.add(format!("{}: {}", self.name, if held { "held" } else { "free" }));
    }
}

/// The memory backend replies without a wait.
fn is_held(manager: &LockManager) -> bool {
    let mut attempt = std::pin::pin!(manager.lock("k").no_wait().try_acquire());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match attempt.as_mut().poll(&mut context) {
        std::task::Poll::Ready(Ok(guard)) => guard.is_none(),
        std::task::Poll::Ready(Err(LockError::WouldDeadlock { .. })) => true,
        std::task::Poll::Ready(Err(error)) => panic!("{error}"),
        std::task::Poll::Pending => panic!("an attempt on the memory backend waited"),
    }
}

struct Pair {
    first: Witness,
    _second: Witness,
}

#[distributed_lock(key = "k", manager = manager)]
async fn plain(
    manager: LockManager,
    used: Witness,
    _unused: Witness,
    mut both: Witness,
) -> Result<(), LockError> {
    both.name = "both";
    assert_eq!(both.name, "both");
    drop(used);
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
async fn wild(manager: LockManager, _: Witness, (a, _): (Witness, Witness)) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    a.log.add("body");
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
async fn rest(manager: LockManager, Pair { first, .. }: Pair) -> Result<(), LockError> {
    first.log.add("body");
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
async fn by_ref(
    manager: LockManager,
    Pair { ref first, _second: ref second }: Pair,
) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    first.log.add(format!("body {}", second.name));
    Ok(())
}

/// The upper lock is released first.
#[distributed_lock(key = "k", manager = manager)]
#[distributed_lock(key = "lower", manager = manager)]
async fn above_another(manager: LockManager, _: Witness, named: Witness) -> Result<(), LockError> {
    named.log.add("body");
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
#[tracing::instrument(skip_all)]
async fn above_instrument(manager: LockManager, _: Witness, named: Witness) -> Result<(), LockError> {
    named.log.add("body");
    Ok(())
}

#[tracing::instrument(skip_all)]
#[distributed_lock(key = "k", manager = manager)]
async fn below_instrument(
    manager: LockManager,
    _: Witness,
    (a, _): (Witness, Witness),
) -> Result<(), LockError> {
    a.log.add("body");
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
fn sync(
    manager: &LockManager,
    _: Witness,
    used: Witness,
    Pair { ref first, .. }: Pair,
) -> Result<(), LockError> {
    first.log.add("body");
    drop(used);
    Ok(())
}

impl Witness {
    #[distributed_lock(key = "k", manager = self.manager)]
    async fn consumed(self) -> Result<(), LockError> {
        Ok(())
    }
}

fn all_held(log: &Log, drops: usize) {
    let entries = log.entries();
    let held = entries.iter().filter(|entry| entry.ends_with("held")).count();
    let free = entries.iter().filter(|entry| entry.ends_with("free")).count();
    assert_eq!((held, free), (drops, 0), "{entries:?}");
}

#[tokio::test]
async fn named_arguments() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    plain(manager.clone(), witness("used"), witness("unused"), witness("mut")).await.unwrap();
    all_held(&log, 3);
    assert!(!is_held(&manager));
}

#[tokio::test]
async fn what_patterns_leave_behind() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    wild(manager.clone(), witness("_"), (witness("a"), witness("left"))).await.unwrap();
    all_held(&log, 3);
    assert_eq!(log.entries()[0], "body");

    let log = Log::default();
    let witness = |name| Witness::new(&manager, &log, name);
    rest(manager.clone(), Pair { first: witness("first"), _second: witness("..") }).await.unwrap();
    all_held(&log, 2);
    assert_eq!(log.entries()[0], "body");

    let log = Log::default();
    let witness = |name| Witness::new(&manager, &log, name);
    by_ref(manager.clone(), Pair { first: witness("first"), _second: witness("second") }).await.unwrap();
    all_held(&log, 2);
    assert_eq!(log.entries()[0], "body second");
}

#[tokio::test]
async fn beside_other_attributes() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    above_another(manager.clone(), witness("_"), witness("named")).await.unwrap();
    above_instrument(manager.clone(), witness("_"), witness("named")).await.unwrap();
    below_instrument(manager.clone(), witness("_"), (witness("a"), witness("left"))).await.unwrap();
    all_held(&log, 7);
}

#[tokio::test]
async fn a_receiver() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    Witness::new(&manager, &log, "self").consumed().await.unwrap();
    all_held(&log, 1);
}

#[test]
fn on_a_thread() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    let pair = Pair { first: witness("first"), _second: witness("..") };
    sync(&manager, witness("_"), witness("used"), pair).unwrap();
    all_held(&log, 4);
    assert_eq!(log.entries()[0], "body");
}

#[tokio::test]
async fn also_when_the_caller_gives_up() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    {
        let mut call = Box::pin(wild(manager.clone(), witness("_"), (witness("a"), witness("left"))));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert!(is_held(&manager));
    }
    all_held(&log, 3);
}
