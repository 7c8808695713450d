//! A call inside a section of the same task, for the same key. Each kind is called inside each other kind.

use std::sync::atomic::{AtomicUsize, Ordering};

use distlock::{LockError, LockManager, LockRequest, blocking, distributed_lock};

use crate::support::locked;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exclusive,
    Shared,
    Two,
    Three,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Enters,
    WouldDeadlock,
    WrongKind,
}

use Kind::{Exclusive, Shared, Three, Two};
use Outcome::{Enters, WouldDeadlock, WrongKind};

/// The outcome of a call of the second kind inside a section of the first, without and with `reentrant`.
const TABLE: [(Kind, Kind, Outcome, Outcome); 16] = [
    (Exclusive, Exclusive, WouldDeadlock, Enters),
    (Exclusive, Shared, WouldDeadlock, Enters),
    (Exclusive, Two, WrongKind, WrongKind),
    (Exclusive, Three, WrongKind, WrongKind),
    (Shared, Exclusive, WouldDeadlock, WouldDeadlock),
    (Shared, Shared, WouldDeadlock, Enters),
    (Shared, Two, WrongKind, WrongKind),
    (Shared, Three, WrongKind, WrongKind),
    (Two, Exclusive, WrongKind, WrongKind),
    (Two, Shared, WrongKind, WrongKind),
    (Two, Two, WouldDeadlock, Enters),
    (Two, Three, WrongKind, WrongKind),
    (Three, Exclusive, WrongKind, WrongKind),
    (Three, Shared, WrongKind, WrongKind),
    (Three, Two, WrongKind, WrongKind),
    (Three, Three, WouldDeadlock, Enters),
];

/// How many bodies of a kind may run at once.
fn most(kind: Kind) -> usize {
    match kind {
        Exclusive => 1,
        Shared => usize::MAX,
        Two => 2,
        Three => 3,
    }
}

fn seen(result: Result<(), LockError>) -> Outcome {
    match result {
        Ok(()) => Enters,
        Err(LockError::WouldDeadlock { .. }) => WouldDeadlock,
        Err(LockError::WrongKind { .. }) => WrongKind,
        Err(error) => panic!("{error}"),
    }
}

/// Annotated functions of one kind: an outer one, and inner ones without and with `reentrant`.
macro_rules! annotated {
    ($($kind:ident: $outer:ident $inner:ident $again:ident, $outer_fn:ident $inner_fn:ident $again_fn:ident, ($($options:tt)*);)*) => {
        $(
            #[distributed_lock(key = "k", $($options)*)]
            async fn $outer(inner: impl Future<Output = Outcome>) -> Result<Outcome, LockError> {
                Ok(inner.await)
            }

            #[distributed_lock(key = "k", $($options)*)]
            async fn $inner() -> Result<(), LockError> {
                Ok(())
            }

            #[distributed_lock(key = "k", reentrant = true, $($options)*)]
            async fn $again() -> Result<(), LockError> {
                Ok(())
            }

            #[distributed_lock(key = "k", $($options)*)]
            fn $outer_fn(inner: impl FnOnce() -> Outcome) -> Result<Outcome, LockError> {
                Ok(inner())
            }

            #[distributed_lock(key = "k", $($options)*)]
            fn $inner_fn() -> Result<(), LockError> {
                Ok(())
            }

            #[distributed_lock(key = "k", reentrant = true, $($options)*)]
            fn $again_fn() -> Result<(), LockError> {
                Ok(())
            }
        )*

        async fn by_attribute(outer: Kind, inner: Kind, again: bool) -> Outcome {
            let inner = async move {
                seen(match (inner, again) {
                    $((Kind::$kind, false) => $inner().await, (Kind::$kind, true) => $again().await,)*
                })
            };
            match outer { $(Kind::$kind => $outer(inner).await.unwrap(),)* }
        }

        fn by_attribute_on_a_thread(outer: Kind, inner: Kind, again: bool) -> Outcome {
            let inner = move || {
                seen(match (inner, again) {
                    $((Kind::$kind, false) => $inner_fn(), (Kind::$kind, true) => $again_fn(),)*
                })
            };
            match outer { $(Kind::$kind => $outer_fn(inner).unwrap(),)* }
        }
    };
}

annotated! {
    Exclusive: exclusive exclusive_inside exclusive_again, exclusive_fn exclusive_inside_fn exclusive_again_fn, ();
    Shared: shared shared_inside shared_again, shared_fn shared_inside_fn shared_again_fn, (mode = "shared");
    Two: two two_inside two_again, two_fn two_inside_fn two_again_fn, (max_holders = 2);
    Three: three three_inside three_again, three_fn three_inside_fn three_again_fn, (max_holders = 3);
}

fn as_kind(request: LockRequest, kind: Kind) -> LockRequest {
    match kind {
        Exclusive => request,
        Shared => request.shared(),
        Two => request.max_holders(2),
        Three => request.max_holders(3),
    }
}

fn as_kind_on_a_thread(request: blocking::LockRequest, kind: Kind) -> blocking::LockRequest {
    match kind {
        Exclusive => request,
        Shared => request.shared(),
        Two => request.max_holders(2),
        Three => request.max_holders(3),
    }
}

#[tokio::test]
async fn every_kind_inside_every_other() {
    for (outer, inner, once, again) in TABLE {
        for (reentrant, expected) in [(false, once), (true, again)] {
            let case = format!("{inner:?} in {outer:?}, reentrant: {reentrant}");

            assert_eq!(locked(by_attribute(outer, inner, reentrant)).await, expected, "{case}");

            let manager = LockManager::in_memory();
            let request = |key| if reentrant { manager.lock(key).reentrant() } else { manager.lock(key) };
            let nested = as_kind(manager.lock("k"), outer)
                .run(async |_| as_kind(request("k"), inner).run(async |_| ()).await);
            assert_eq!(seen(nested.await.unwrap()), expected, "{case}, by hand");

            // The section holds one of these keys.
            let all = || manager.lock_all(["a", "k", "z"]);
            let request = || if reentrant { all().reentrant() } else { all() };
            if matches!(inner, Exclusive | Shared) {
                let nested = as_kind(manager.lock("k"), outer)
                    .run(async |_| as_kind(request(), inner).run(async |_| ()).await);
                assert_eq!(seen(nested.await.unwrap()), expected, "{case}, of several keys");
            }
        }
    }
}

#[test]
fn the_same_on_a_thread() {
    for (outer, inner, once, again) in TABLE {
        for (reentrant, expected) in [(false, once), (true, again)] {
            let case = format!("{inner:?} in {outer:?}, reentrant: {reentrant}");
            let manager = blocking::LockManager::in_memory();

            let nested = || by_attribute_on_a_thread(outer, inner, reentrant);
            assert_eq!(blocking::with_manager(manager.clone(), nested), expected, "{case}");

            let request = || if reentrant { manager.lock("k").reentrant() } else { manager.lock("k") };
            let nested = as_kind_on_a_thread(manager.lock("k"), outer)
                .run(|_| as_kind_on_a_thread(request(), inner).run(|_| ()));
            assert_eq!(seen(nested.unwrap()), expected, "{case}, by hand");
        }
    }
}

/// The rule behind the table: in any nesting, no more bodies of a kind run at once than the kind allows.
#[tokio::test]
async fn never_more_bodies_at_once_than_the_inner_kind_lets_in() {
    for (outer, inner, ..) in TABLE {
        let manager = LockManager::in_memory();
        let (inside, at_once) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let body = async || {
            at_once.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            inside.fetch_sub(1, Ordering::Relaxed);
        };
        let call = async || {
            let nested =
                async |_| as_kind(manager.lock("k").reentrant(), inner).run(async |_| body().await).await;
            seen(as_kind(manager.lock("k"), outer).run(nested).await.unwrap())
        };
        let outcomes = tokio::join!(call(), call(), call(), call());
        let at_once = at_once.into_inner();
        assert!(at_once <= most(inner), "{inner:?} in {outer:?}: {at_once} at once, {outcomes:?}");
    }
}

#[tokio::test]
async fn an_upgrade_says_what_to_do() {
    locked(async {
        let refused =
            LockManager::current().unwrap().lock("k").shared().run(async |_| exclusive_again().await);
        let error = refused.await.unwrap().unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("held as a shared lock") && text.contains("let the outer call acquire"),
            "{text}"
        );
    })
    .await;
}
