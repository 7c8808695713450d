//! The meaning of a failure for the lock: its [`Failure`], the remedy, and whether its link can still be used.

use std::error::Error;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerError};

use crate::backend::{Failure, StoreError};

/// A failure with its remedy. Keeps the client library's error without showing its type.
#[derive(Debug)]
struct Cause {
    text: String,
    source: Option<RedisError>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // This error contains the text of the client's error. The source may be useful to the program.
        self.source.as_ref().and_then(Error::source)
    }
}

/// The meaning of an error reply.
struct ErrorMeaning {
    kind: Failure,
    remedy: &'static str,
    /// The link leads to the wrong server, so the right one must be found.
    wrong_server: bool,
}

/// Error replies whose code shows their meaning. The errors that keep a server from writing (`OOM`, `NOREPLICAS`,
/// `MISCONF`) occur only at a script's first write, so the script has done nothing.
fn error_meaning(code: &str) -> Option<ErrorMeaning> {
    let (kind, remedy, wrong_server) = match code {
        "READONLY" => (Failure::Later, "the server is a read-only replica: locks need its master", true),
        "MASTERDOWN" => (Failure::Later, "the server is a replica whose master is down", true),
        "LOADING" => (Failure::Later, "the server is still loading its data", false),
        "BUSY" => (Failure::Later, "the server is busy with the script of another client", false),
        "CLUSTERDOWN" | "TRYAGAIN" => (Failure::Later, "the cluster cannot serve this key now", false),
        "OOM" => (
            Failure::Later,
            "the server is out of memory: raise `maxmemory`, or give locks a server of their own",
            false,
        ),
        "NOREPLICAS" => (
            Failure::Later,
            "the server has fewer replicas than its `min-replicas-to-write` asks for: bring them back or lower it",
            false,
        ),
        "MISCONF" => (
            Failure::Later,
            "the server cannot save to disk and refuses writes: see its log, or `stop-writes-on-bgsave-error`",
            false,
        ),
        "MOVED" | "ASK" => {
            (Failure::Refused, "the server is part of a cluster: connect with `redis+cluster://`", false)
        }
        "CROSSSLOT" => (Failure::Refused, HIDDEN_CLUSTER, false),
        "NOPERM" => (
            Failure::Refused,
            "the user may not do this: grant the commands that distlock's documentation lists \
             (`+evalsha +eval +set +get +del ..`), the keys below the prefix and its channels",
            false,
        ),
        "NOAUTH" => (
            Failure::Refused,
            "the server asks for a password: put it into the URL, or give one with `credentials`",
            false,
        ),
        "WRONGPASS" => (
            Failure::Refused,
            "user or password is wrong: correct the URL, or what the function given to `credentials` returns",
            false,
        ),
        "WRONGTYPE" => {
            (Failure::Refused, "the key holds something that is not a lock: use another key", false)
        }
        "DENIED" => (
            Failure::Refused,
            "the server takes connections from its own machine only: set a password (`requirepass`), or, in a \
             network that only trusted machines can access, `protected-mode no`",
            false,
        ),
        _ => return None,
    };
    Some(ErrorMeaning { kind, remedy, wrong_server })
}

/// The remedy for a proxy or a managed server that spreads keys over a cluster without reporting it.
const HIDDEN_CLUSTER: &str = "the server spreads keys over a cluster: put all locks into one slot with \
                              `key_prefix(\"{locks}:\")`, or connect to the cluster itself with \
                              `redis+cluster://` if that is possible";

/// Servers before 7.0 wrap the error of a command inside a script: `ERR Error running script ..: -OOM ..`.
fn embedded(details: &str) -> Option<ErrorMeaning> {
    let mut words = details.split([' ', ':']).filter_map(|word| word.strip_prefix('-'));
    words.find_map(error_meaning)
}

/// How servers before 7.2 report that the user may not run a command of a script, with the code `ERR`.
const FORBIDDEN_IN_SCRIPT: &str = "user executing the script";

/// Texts which show that the same command will be refused again.
const LASTING_REFUSALS: [&str; 5] =
    ["unknown command", "unknown subcommand", "syntax error", "wrong number of arguments", "invalid request"];

/// Whether a command met a key of another type, also inside a script of a server before 7.0.
pub(super) fn is_wrong_type(error: &ServerError) -> bool {
    error.code() == "WRONGTYPE" || error.details().is_some_and(|details| details.contains("-WRONGTYPE"))
}

/// Whether the user may not run scripts for any key.
pub(super) fn forbids_scripts(error: &ServerError) -> bool {
    let names_eval = |details: &str| details.to_lowercase().contains("'eval");
    error.code() == "NOPERM" && error.details().is_some_and(names_eval)
}

/// One of the keys `names` of a lock has a value of another program.
pub(super) fn foreign_value(names: &[String], error: ServerError) -> StoreError {
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
    let error = RedisError::from(error);
    let text = format!(
        "{names}, the queue of the lock, holds a value that distlock has not written: delete \
         it (DEL), or give the locks a `key_prefix` of their own ({error})"
    );
    StoreError::new(Failure::Refused, Cause { text, source: Some(error) })
}

/// Whether the server does not know the command, at least in this form.
pub(super) fn is_unknown_command(error: &ServerError) -> bool {
    let line = format!("{} {}", error.code(), error.details().unwrap_or_default()).to_lowercase();
    LASTING_REFUSALS.iter().any(|text| line.contains(text))
}

fn judge(error: &ServerError) -> ErrorMeaning {
    let details = error.details().unwrap_or_default();
    let code = if details.contains(FORBIDDEN_IN_SCRIPT) { "NOPERM" } else { error.code() };
    error_meaning(code).or_else(|| embedded(details)).unwrap_or_else(|| {
        if is_unknown_command(error) {
            let remedy =
                "the server does not accept a command that distlock needs (EVAL, EVALSHA, SET with NX and PX)";
            return ErrorMeaning { kind: Failure::Refused, remedy, wrong_server: false };
        }
        // A proxy reports this when it has lost its server, possibly after it sent the command (`upstream
        // failure`, `ERR Connection timed out`).
        let remedy = "the server refused the command, perhaps only for a moment";
        ErrorMeaning { kind: Failure::Unknown, remedy, wrong_server: false }
    })
}

/// Whether the link leads to a server that cannot be the right one.
pub(super) fn is_wrong_server(error: &ServerError) -> bool {
    judge(error).wrong_server
}

/// The failure that an error of the client library stands for, if it is a reply with a known code.
pub(super) fn failure(error: &RedisError) -> Option<Failure> {
    error.code().and_then(error_meaning).map(|error_meaning| error_meaning.kind)
}

/// An error reply to an operation.
pub(super) fn replied(error: ServerError) -> StoreError {
    let ErrorMeaning { kind, remedy, .. } = judge(&error);
    let error = RedisError::from(error);
    StoreError::new(kind, Cause { text: format!("{remedy} ({error})"), source: Some(error) })
}

/// The keys of this server could not be looked through.
pub(super) fn not_listed(error: ServerError) -> StoreError {
    let details = error.details().unwrap_or_default();
    let forbidden =
        error.code() == "NOPERM" || details.contains("NOPERM") || details.contains(FORBIDDEN_IN_SCRIPT);
    if !forbidden || forbids_scripts(&error) {
        return replied(error);
    }
    let error = RedisError::from(error);
    let text = format!("the user may not look for locks: grant `+scan` ({error})");
    StoreError::new(Failure::Refused, Cause { text, source: Some(error) })
}

/// An operation that was sent and got no reply.
pub(super) fn unanswered(error: RedisError) -> StoreError {
    let text = format!("the connection to the server broke before the answer came ({error})");
    StoreError::new(Failure::Unknown, Cause { text, source: Some(error) })
}

/// The source of the user and the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialsFrom {
    Url,
    /// The function that was passed to the builder.
    Provider,
}

/// An attempt to connect that failed.
pub(super) fn unconnected(place: &str, credentials: CredentialsFrom, error: RedisError) -> StoreError {
    if error.kind() == ErrorKind::AuthenticationFailed {
        let text = match credentials {
            CredentialsFrom::Url => {
                format!("{place} refuses the user or the password: correct the URL ({error})")
            }
            CredentialsFrom::Provider => format!(
                "{place} refuses the user or the password that the function given to `credentials` returned: \
                 correct that function, or the user on the server ({error})"
            ),
        };
        return StoreError::new(Failure::Refused, Cause { text, source: Some(error) });
    }
    let known = error.code().and_then(error_meaning);
    let kind = known.as_ref().map_or(Failure::NotSent, |error_meaning| error_meaning.kind);
    let text = match known {
        Some(ErrorMeaning { remedy, .. }) => format!("cannot use {place}: {remedy} ({error})"),
        None => format!("cannot connect to {place}: {error}"),
    };
    StoreError::new(kind, Cause { text, source: Some(error) })
}

/// A failure that was detected here.
pub(super) fn found(kind: Failure, text: impl Into<String>) -> StoreError {
    StoreError::new(kind, Cause { text: text.into(), source: None })
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn server_error(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => error,
            other => panic!("not an error: {other:?}"),
        }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_will_be_refused_again_is_not() {
        for (line, kind) in [
            ("READONLY You can't write against a read only replica.", Failure::Later),
            ("LOADING Redis is loading the dataset in memory", Failure::Later),
            ("BUSY Redis is busy running a script.", Failure::Later),
            ("CLUSTERDOWN Hash slot not served", Failure::Later),
            ("OOM command not allowed when used memory > 'maxmemory'.", Failure::Later),
            ("NOREPLICAS Not enough good replicas to write.", Failure::Later),
            ("MISCONF Redis is configured to save RDB snapshots", Failure::Later),
            ("upstream failure", Failure::Unknown),
            ("no upstream host", Failure::Unknown),
            ("ERR Connection refused", Failure::Unknown),
            ("ERR Connection timed out", Failure::Unknown),
            ("ERR max number of clients reached", Failure::Unknown),
            ("NOPERM this user has no permissions", Failure::Refused),
            ("ERR The user executing the script can't run this command or subcommand", Failure::Refused),
            ("NOAUTH Authentication required.", Failure::Refused),
            ("CROSSSLOT Keys in request don't hash to the same slot", Failure::Refused),
            ("DENIED Redis is running in protected mode", Failure::Refused),
            ("ERR unknown command `EVALSHA`", Failure::Refused),
            ("ERR syntax error", Failure::Refused),
            ("ERR invalid request", Failure::Refused),
        ] {
            let error = replied(server_error(line));
            assert_eq!(error.kind, kind, "{line}");
            assert!(error.source.source().is_some(), "{line}");
            let (_, words) = line.split_once(' ').unwrap();
            assert!(error.to_string().contains(words), "the server's own words: {error}");
        }
    }

    #[test]
    fn a_hidden_cluster_is_answered_with_the_prefix_that_heals_it() {
        let error = replied(server_error("CROSSSLOT Keys in request don't hash to the same slot"));
        assert!(error.to_string().contains("key_prefix(\"{locks}:\")"), "{error}");
    }

    #[test]
    fn errors_wrapped_by_old_servers_are_recognised() {
        let line = "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: \
                    -READONLY You can't write against a read only replica.";
        assert_eq!(replied(server_error(line)).kind, Failure::Later);
        assert!(is_wrong_server(&server_error(line)));
    }
}
