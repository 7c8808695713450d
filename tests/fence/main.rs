//! `distlock-fence` on real databases: each test of `suite` with each library, and commits that fail or whose replies
//! are lost.

#![allow(clippy::unwrap_used, clippy::expect_used)]

/// Each rule on each database, as a test.
macro_rules! each_database {
    ($rules:tt $($database:ident: $open:expr;)*) => {$(
        mod $database {
            use super::*;

            each_database!(@ $open; $rules);
        }
    )*};
    (@ $open:expr; [$($rule:ident)*]) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $rule() {
            let (database, _its) = $open.await;
            super::$rule(&database).await;
        }
    )*};
}

mod attribute;
mod attribute_blocking;
mod campaign;
mod clock;
mod dropped_statements;
mod grpc;
mod isolation;
mod left_behind;
mod libraries;
mod library;
mod lost_answers;
mod migrations;
mod nested;
mod objects;
mod once;
mod redis;
mod same_database;
mod sources;
mod suite;
mod world;
