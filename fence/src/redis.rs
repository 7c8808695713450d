//! Values in Redis and Valkey, on any asynchronous connection of `redis`.
//!
//! ```
//! use distlock_fence::{Fence, FenceError};
//!
//! async fn redeem(
//!     connection: &mut impl redis::aio::ConnectionLike,
//!     fence: &Fence,
//!     points: i64,
//! ) -> Result<(), FenceError> {
//!     let commands = redis::pipe().set("{points:42}", points).hset("{points:42}:log", "by", "redeem").to_owned();
//!     distlock_fence::redis::transaction(fence, connection, &commands).await?;
//!     Ok(())
//! }
//! ```
//!
//! A script compares the token with the stored token in a key next to the values ([`key_of`]), stores the larger one,
//! and calls the commands. No other command can come between them. In a cluster, the values must be in the slot of that
//! key, which is the slot of the lock's key. Use the lock's key as their hash tag.
//!
//! # What it promises
//! A holder that was overtaken is refused, and changes nothing. Redis does not roll back: if a command fails, the
//! commands before it have been executed ([`FenceError::OutcomeUnknown`]). Redis does not wait for its replicas: a
//! fail-over may lose the latest values together with the token, and a holder that was refused before may then be
//! accepted. The same happens if the key of the token is evicted or deleted. It has no ttl: set `maxmemory-policy` to
//! `noeviction`, or to one of `volatile-*`.
//!
//! Behind a proxy (twemproxy, Envoy), every error means that the outcome is unknown, even [`FenceError::NotCommitted`].
//! The proxy may send an error of its own after the script has run.
//!
//! A connection to a cluster repeats a command if its reply was lost, and returns the reply to the last attempt. Use
//! only commands that may be executed twice, such as SET and HSET. With such a connection, every error means that the
//! outcome is unknown, even [`FenceError::NotCommitted`] and [`FenceError::Stale`]: the first attempt may have been
//! executed, and the second one refused. This does not apply if the client was built with
//! `ClusterClient::builder(nodes).retries(0)`. It then also returns the errors of slots that have moved.

use redis::aio::ConnectionLike;
use redis::{Arg, ErrorKind, Pipeline, RedisError, Script, Value};

use crate::{Fence, FenceError};

/// Executes the commands, unless a later holder of the key has already executed its own. Returns the reply of each
/// command. `ignore` in the pipeline has no effect.
///
/// # Errors
/// [`FenceError::Stale`] if a later holder was first; [`FenceError::NotCommitted`] if the server refused, or the first
/// command failed; [`FenceError::OutcomeUnknown`] if the reply was lost, or a later command failed. With a connection
/// to a cluster that retries, each of them means that the outcome is unknown.
///
/// # Cancel safety
/// If the future is dropped after the first poll, the commands may have been executed.
pub async fn transaction(
    fence: &Fence,
    connection: &mut impl ConnectionLike,
    commands: &Pipeline,
) -> Result<Vec<Value>, FenceError> {
    let script = Script::new(include_str!("redis.lua"));
    let mut call = script.key(key_of(fence));
    call.arg(fence.token());
    for command in commands.cmd_iter() {
        call.arg(command.args_iter().len());
        for argument in command.args_iter() {
            match argument {
                Arg::Simple(bytes) => call.arg(bytes),
                Arg::Cursor => call.arg(0),
                _ => {
                    return Err(FenceError::not_committed(fence, "an argument of an unknown kind"));
                }
            };
        }
    }
    let answer = call
        .invoke_async::<Answer>(connection)
        .await
        .map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))?;
    match answer {
        (newest, _, _, _) if newest > fence.token() => Err(FenceError::stale(fence, newest)),
        (_, replies, _, None) => Ok(replies),
        (_, _, 1, Some(error)) => Err(FenceError::not_committed(fence, error)),
        (_, _, number, Some(error)) => {
            let error =
                format!("command {number} has failed, and the commands before it were executed: {error}");
            Err(FenceError::outcome_unknown(fence, error))
        }
    }
}

/// The largest token, the reply of each command, and the number of commands up to a failed one.
type Answer = (u64, Vec<Value>, usize, Option<String>);

/// The key that stores the token of a fence. It is in the slot of the lock's key, unless this key has a `}` and no hash
/// tag of its own. Different locks have different keys.
#[must_use]
pub fn key_of(fence: &Fence) -> String {
    let key = fence.key();
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    if tag.is_some_and(|(tag, _)| !tag.is_empty()) {
        format!("distlock_fence::{key}")
    } else {
        format!("distlock_fence:{{{key}}}")
    }
}

/// Whether the server has answered that it does not run the script. (What fails in the script is an answer of it. An
/// error of a proxy may look like one of the server, with the code ERR.)
fn is_refusal(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_in_the_slot_of_the_lock() {
        for (key, its) in [
            ("points:42", "distlock_fence:{points:42}"),
            ("{points}:42", "distlock_fence::{points}:42"),
            ("a{b}", "distlock_fence::a{b}"),
            ("a{", "distlock_fence:{a{}"),
            ("", "distlock_fence:{}"),
        ] {
            assert_eq!(key_of(&Fence::new(key, 1)), its);
        }
    }
}
