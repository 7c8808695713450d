//! Functions that `macro_rules!` macros create.

use distlock::{LockError, distributed_lock};

use crate::support::locked;

macro_rules! with_argument_of_its_own {
    ($name:ident) => {
        #[distributed_lock(key = "order:<id>", guard = guard)]
        async fn $name(id: u64) -> Result<String, LockError> {
            Ok(format!("{} {id}", guard.key()))
        }
    };
}

macro_rules! with_argument_of_the_caller {
    ($vis:vis $name:ident, $argument:ident: $ty:ty, $key:literal, $body:block) => {
        #[distributed_lock(key = $key)]
        $vis async fn $name($argument: $ty) -> Result<String, LockError> $body
    };
}

macro_rules! with_expression_of_the_caller {
    ($name:ident, $argument:ident, $key:expr, $ttl:expr, $path:path) => {
        #[distributed_lock(key = $key, ttl = $ttl, map_err = $path)]
        async fn $name($argument: u64) -> Result<u64, String> {
            let id = 3;
            Ok(id + $argument)
        }
    };
}

macro_rules! with_attributes_of_the_caller {
    ($(#[$meta:meta])* fn $name:ident($($argument:ident: $ty:ty),*) -> $ret:ty $body:block) => {
        $(#[$meta])*
        async fn $name($($argument: $ty),*) -> $ret $body
    };
}

fn text(error: LockError) -> String {
    error.to_string()
}

with_argument_of_its_own!(own);
with_argument_of_the_caller!(pub(crate) callers, user: &str, "user:<user>", { Ok(user.to_owned()) });
with_expression_of_the_caller!(expression, id, format!("x:{id}"), "10s", self::text);
with_attributes_of_the_caller! {
    #[distributed_lock(key = "<a>:<b>")]
    fn attributes(a: u8, b: u8) -> Result<u8, LockError> { Ok(a + b) }
}

#[tokio::test]
async fn names_keep_their_hygiene() {
    locked(async {
        assert_eq!(own(1).await.unwrap(), "order:1 1");
        assert_eq!(callers("ann").await.unwrap(), "ann");
        assert_eq!(expression(1).await.unwrap(), 4);
        assert_eq!(attributes(1, 2).await.unwrap(), 3);
    })
    .await;
}

/// Names that the expansion also uses.
#[allow(clippy::too_many_arguments)]
#[distributed_lock(key = "<slot>:<held>:<key>:<request>:<manager>:<value>:<result>:<body>", guard = acquired)]
async fn names_of_the_expansion(
    slot: u8,
    held: u8,
    key: u8,
    request: u8,
    manager: u8,
    value: u8,
    result: u8,
    body: u8,
    arg0: u8,
    _: u8,
) -> Result<String, LockError> {
    Ok(format!("{} {}", acquired.key(), slot + held + key + request + manager + value + result + body + arg0))
}

#[tokio::test]
async fn no_name_of_the_user_means_one_of_ours() {
    locked(async {
        let text = names_of_the_expansion(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).await.unwrap();
        assert_eq!(text, "1:2:3:4:5:6:7:8 45");
    })
    .await;
}
