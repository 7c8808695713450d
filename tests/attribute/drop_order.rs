//! Arguments are dropped in the same order as in a plain function. Each pattern is written once, and compiled with and
//! without the attribute.

use distlock::{LockError, LockManager, blocking, distributed_lock};

use crate::support::{Log, locked};

/// Records its name when it is dropped.
struct Part(&'static str, Log);

impl Drop for Part {
    fn drop(&mut self) {
        self.1.add(self.0);
    }
}

struct Pair {
    left: Part,
    #[allow(dead_code, reason = "what a pattern leaves behind")]
    right: Part,
}

/// Compiles each `fn(patterns) { body }` as a plain and as a locked function, async and sync, and compares their drop
/// orders.
macro_rules! compared {
    ($($name:ident($($pattern:pat => $value:expr, $ty:ty;)*) |$log:ident| $body:block)*) => {$(
        mod $name {
            use super::*;

            async fn plain($($pattern: $ty),*) -> Result<(), LockError> $body

            #[distributed_lock(key = "k")]
            async fn annotated($($pattern: $ty),*) -> Result<(), LockError> $body

            #[distributed_lock(key = "k", guard = guard)]
            async fn with_guard($($pattern: $ty),*) -> Result<(), LockError> {
                let _guard = guard;
                $body
            }

            #[distributed_lock(key = "k", on_busy = Ok(()))]
            async fn with_on_busy($($pattern: $ty),*) -> Result<(), LockError> $body

            fn plain_on_a_thread($($pattern: $ty),*) -> Result<(), LockError> $body

            #[distributed_lock(key = "k")]
            fn on_a_thread($($pattern: $ty),*) -> Result<(), LockError> $body

            #[tokio::test]
            async fn as_without_the_attribute() {
                let expected = Log::default();
                {
                    let $log = &expected;
                    plain($($value),*).await.unwrap();
                }
                assert_ne!(expected.entries(), [""; 0]);

                let seen = Log::default();
                let $log = &seen;
                locked(annotated($($value),*)).await.unwrap();
                assert_eq!(seen.entries(), expected.entries(), "async");

                let seen = Log::default();
                let $log = &seen;
                locked(with_guard($($value),*)).await.unwrap();
                assert_eq!(seen.entries(), expected.entries(), "with a guard");

                let seen = Log::default();
                let $log = &seen;
                locked(with_on_busy($($value),*)).await.unwrap();
                assert_eq!(seen.entries(), expected.entries(), "with on_busy");
            }

            #[test]
            fn as_without_the_attribute_on_a_thread() {
                let expected = Log::default();
                {
                    let $log = &expected;
                    plain_on_a_thread($($value),*).unwrap();
                }
                let seen = Log::default();
                let $log = &seen;
                blocking::with_manager(LockManager::in_memory(), || on_a_thread($($value),*)).unwrap();
                assert_eq!(seen.entries(), expected.entries());
            }
        }
    )*};
}

fn part(name: &'static str, log: &Log) -> Part {
    Part(name, log.clone())
}

fn pair(left: &'static str, right: &'static str, log: &Log) -> Pair {
    Pair { left: part(left, log), right: part(right, log) }
}

compared! {
    names(a => part("a", log), Part; b => part("b", log), Part; c => part("c", log), Part;) |log| {
        let _used = (&c.0, &a.0, &b.0);
        Ok(())
    }
    a_name_that_nothing_mentions(a => part("a", log), Part; _b => part("b", log), Part; c => part("c", log), Part;) |log| {
        let _used = (&a.0, &c.0);
        Ok(())
    }
    one_that_is_moved(a => part("a", log), Part; b => part("b", log), Part; c => part("c", log), Part;) |log| {
        let _used = &a.0;
        drop(b);
        let _kept = c;
        Ok(())
    }
    mutable(mut a => part("a", log), Part; b => part("b", log), Part;) |log| {
        a.0 = "changed";
        let _used = (&a.0, &b.0);
        Ok(())
    }
    a_wild_one(a => part("a", log), Part; _ => part("_", log), Part; b => part("b", log), Part;) |log| {
        let _used = (&a.0, &b.0);
        Ok(())
    }
    tuples((a, b) => (part("a", log), part("b", log)), (Part, Part); c => part("c", log), Part;) |log| {
        let _used = (&b.0, &c.0, &a.0);
        Ok(())
    }
    what_a_tuple_leaves_behind(
        x => part("x", log), Part;
        (a, _) => (part("a", log), part("left", log)), (Part, Part);
        (_, mut b) => (part("left 2", log), part("b", log)), (Part, Part);
        mut y => part("y", log), Part;
        _ => part("_", log), Part;
        (c, d) => (part("c", log), part("d", log)), (Part, Part);
    ) |log| {
        b.0 = "b, changed";
        y.0 = "y, changed";
        let _used = (&a.0, &x.0, &b.0, &y.0, &c.0, &d.0);
        Ok(())
    }
    what_a_struct_leaves_behind(
        x => part("x", log), Part;
        Pair { left, .. } => pair("left", "right", log), Pair;
        y => part("y", log), Part;
    ) |log| {
        let _used = (&left.0, &x.0, &y.0);
        Ok(())
    }
    references(
        x => part("x", log), Part;
        Pair { ref left, ref right } => pair("left", "right", log), Pair;
        y => part("y", log), Part;
    ) |log| {
        let _used = (&left.0, &right.0, &x.0, &y.0);
        Ok(())
    }
}

struct Service(Part);

impl Service {
    async fn plain(self, b: Part, c: Part) -> Result<(), LockError> {
        let _used = (&b.0, &self.0.0, &c.0);
        Ok(())
    }

    #[distributed_lock(key = "k")]
    async fn annotated(self, b: Part, c: Part) -> Result<(), LockError> {
        let _used = (&b.0, &self.0.0, &c.0);
        Ok(())
    }

    #[distributed_lock(key = "k")]
    fn on_a_thread(self, b: Part, c: Part) -> Result<(), LockError> {
        let _used = (&b.0, &self.0.0, &c.0);
        Ok(())
    }
}

#[tokio::test]
async fn receivers() {
    let service = |log: &Log| Service(part("self", log));
    let expected = Log::default();
    service(&expected).plain(part("b", &expected), part("c", &expected)).await.unwrap();
    let seen = Log::default();
    locked(service(&seen).annotated(part("b", &seen), part("c", &seen))).await.unwrap();
    assert_eq!(seen.entries(), expected.entries());
    let seen = Log::default();
    let call = || service(&seen).on_a_thread(part("b", &seen), part("c", &seen));
    blocking::with_manager(LockManager::in_memory(), call).unwrap();
    assert_eq!(seen.entries(), expected.entries());
}

#[async_trait::async_trait]
trait Shop {
    async fn plain(self, b: Part, c: Part) -> Result<(), LockError>;
    async fn annotated(self, b: Part, c: Part) -> Result<(), LockError>;
}

#[async_trait::async_trait]
impl Shop for Service {
    async fn plain(self, b: Part, c: Part) -> Result<(), LockError> {
        let _used = (&b.0, &self.0.0, &c.0);
        Ok(())
    }

    #[distributed_lock(key = "k")]
    async fn annotated(self, b: Part, c: Part) -> Result<(), LockError> {
        let _used = (&b.0, &self.0.0, &c.0);
        Ok(())
    }
}

#[tokio::test]
async fn methods_of_async_trait() {
    let service = |log: &Log| Service(part("self", log));
    let expected = Log::default();
    Shop::plain(service(&expected), part("b", &expected), part("c", &expected)).await.unwrap();
    let seen = Log::default();
    locked(Shop::annotated(service(&seen), part("b", &seen), part("c", &seen))).await.unwrap();
    assert_eq!(seen.entries(), expected.entries());
}

/// The exception: a pattern whose names an option uses is matched earlier. Its other parts are dropped last.
#[distributed_lock(key = "k:<left.0>")]
async fn named_in_the_key(x: Part, Pair { left, .. }: Pair) -> Result<(), LockError> {
    let _used = (&left.0, &x.0);
    Ok(())
}

#[tokio::test]
async fn what_a_pattern_leaves_behind_drops_last_if_the_key_names_a_part() {
    let log = Log::default();
    locked(named_in_the_key(part("x", &log), pair("left", "right", &log))).await.unwrap();
    assert_eq!(log.entries(), ["left", "x", "right"]);
}
