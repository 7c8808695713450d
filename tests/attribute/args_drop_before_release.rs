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

/// A struct without fields, which a pattern of the same name leaves where it is.
struct Marker;

std::thread_local! {
    static MARKED: std::cell::RefCell<Option<Witness>> = const { std::cell::RefCell::new(None) };
}

impl Drop for Marker {
    fn drop(&mut self) {
        drop(MARKED.take());
    }
}

#[distributed_lock(key = "k", manager = manager)]
async fn without_fields(manager: LockManager, Marker: Marker) -> Result<(), LockError> {
    Ok(())
}

#[allow(non_snake_case, unused_variables, reason = "that is what is tested")]
#[distributed_lock(key = "k", manager = manager)]
async fn upper_case(manager: LockManager, Tx: Witness, unused: Witness) -> Result<(), LockError> {
    drop(unused);
    tokio::task::yield_now().await;
    Ok(())
}

#[allow(non_snake_case, reason = "that is what is tested")]
#[distributed_lock(key = "k", manager = Tx.manager)]
async fn upper_case_in_an_option(Tx: Witness, (X, _): (Witness, u8)) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    X.log.add("body");
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
async fn structs_without_fields_and_upper_case_names() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    MARKED.set(Some(witness("marker")));
    without_fields(manager.clone(), Marker).await.unwrap();
    upper_case(manager.clone(), witness("upper case"), witness("unused")).await.unwrap();
    upper_case_in_an_option(witness("in an option"), (witness("x"), 1)).await.unwrap();
    all_held(&log, 5);
}

/// The arguments of these are only used by options.
mod only_in_options {
    use futures_util::future::BoxFuture;

    use super::*;

    impl Witness {
        fn key(&self) -> &'static str {
            self.log.add("key");
            "k"
        }

        #[distributed_lock(key = "k", manager = self.manager)]
        pub(super) fn receiver(self) -> impl Future<Output = Result<(), LockError>> {
            async move { Ok(()) }
        }
    }

    impl std::fmt::Display for Witness {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("k")
        }
    }

    #[distributed_lock(key = audit.key(), manager = session.manager)]
    pub(super) fn expressions(audit: Witness, session: Witness) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin(async move { Ok(()) })
    }

    #[distributed_lock(key = "<text>", manager = manager)]
    pub(super) fn whole<'a>(text: Witness, manager: &'a LockManager) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(async move { Ok(()) })
    }

    #[distributed_lock(key = "<pair.first>", manager = pair.first.manager, when = !pair.first.name.is_empty())]
    pub(super) fn a_part(pair: Pair) -> BoxFuture<'static, Result<(), LockError>> {
        // The rest of it is gone already.
        drop(pair._second);
        Box::pin(async move { Ok(()) })
    }

    #[distributed_lock(keys = keys, manager = checked(&format!("{text}"), &manager))]
    pub(super) fn an_iterator(
        keys: impl Iterator<Item = &'static str> + Send + 'static,
        text: Witness,
        manager: LockManager,
    ) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin(async move { Ok(()) })
    }

    fn checked<'a>(text: &str, manager: &'a LockManager) -> &'a LockManager {
        assert_eq!(text, "k");
        manager
    }
}

#[tokio::test]
async fn arguments_that_only_options_use_in_a_function_that_returns_a_future() {
    let (manager, log) = (LockManager::in_memory(), Log::default());
    let witness = |name| Witness::new(&manager, &log, name);
    only_in_options::expressions(witness("audit"), witness("session")).await.unwrap();
    only_in_options::whole(witness("text"), &manager).await.unwrap();
    witness("self").receiver().await.unwrap();
    only_in_options::an_iterator(["k"].into_iter(), witness("text"), manager.clone()).await.unwrap();
    all_held(&log, 5);

    let log = Log::default();
    let witness = |name| Witness::new(&manager, &log, name);
    let pair = Pair { first: witness("first"), _second: witness("second") };
    only_in_options::a_part(pair).await.unwrap();
    assert_eq!(log.entries(), ["second: free", "first: held"]);
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
