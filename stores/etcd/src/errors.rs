//! The meaning of an error of etcd or of its connection for a command, and the remedy.

use std::error::Error as _;

use etcd_client::Error as ClientError;
use tonic::{Code, Status};

use distlock_store::StoreError;
use distlock_store::engine::with_causes;

/// An error, and whether the connection can still be used.
#[derive(Clone, Debug)]
pub(super) struct LinkError {
    pub(super) store: StoreError,
    pub(super) connection: Connection,
    /// The lease of the session no longer exists.
    pub(super) lease_is_gone: bool,
}

/// Whether the connection is used after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// The server works, and has refused.
    GoesOn,
    /// Commands may still be in flight, or this member cannot work. Another connection is opened, which ends those
    /// commands.
    IsReplaced,
}

impl LinkError {
    /// There was no reply, or the reply does not say that nothing was done.
    pub(super) fn unknown(text: impl Into<String>) -> LinkError {
        LinkError {
            store: StoreError::unknown(text.into()),
            connection: Connection::IsReplaced,
            lease_is_gone: false,
        }
    }

    /// Refused, and nothing was done. The next connection may succeed.
    pub(super) fn later(text: impl Into<String>) -> LinkError {
        LinkError { store: StoreError::later(text.into()), ..LinkError::unknown("") }
    }

    fn refused(text: String) -> LinkError {
        LinkError { store: StoreError::refused(text), connection: Connection::GoesOn, lease_is_gone: false }
    }

    /// From the reply of a member to a command. `place` names the member in messages. Every key begins with `all`.
    pub(super) fn from(error: &ClientError, place: &str, all: &str) -> LinkError {
        match error {
            ClientError::GRpcStatus(status) => LinkError::of_status(status, place, all),
            ClientError::LeaseKeepAliveError(text) if text.contains("not found") => {
                LinkError { lease_is_gone: true, ..LinkError::later(format!("{place}: {text}")) }
            }
            ClientError::InvalidUri(_)
            | ClientError::InvalidArgs(_)
            | ClientError::InvalidMetadataValue(_) => {
                LinkError::refused(format!("{place} cannot be used: {}", chain(error)))
            }
            other => LinkError::unknown(format!("{place}: {}", chain(other))),
        }
    }

    /// From the reason for which a watch was cancelled: `rpc error: code = PermissionDenied desc = ..`.
    pub(super) fn of_cancelled_watch(reason: &str, place: &str, all: &str) -> LinkError {
        let (code, words) = reason
            .strip_prefix("rpc error: code = ")
            .and_then(|text| text.split_once(" desc = "))
            .unwrap_or(("", reason));
        let code = match code {
            "PermissionDenied" => Code::PermissionDenied,
            "InvalidArgument" => Code::InvalidArgument,
            "Unauthenticated" => Code::Unauthenticated,
            // Servers word it in more than one way.
            _ if words.contains("permission denied") => Code::PermissionDenied,
            _ => Code::Unavailable,
        };
        LinkError::of_status(&Status::new(code, words), place, all)
    }

    fn of_status(status: &Status, place: &str, all: &str) -> LinkError {
        let words = status_text(status);
        let message = status.message();
        if status.source().is_some() {
            // These are not etcd's words: the connection failed, and the command may have arrived.
            return LinkError::unknown(format!("{place} gave no answer that counts ({words})"));
        }
        match status.code() {
            Code::PermissionDenied => LinkError::refused(format!(
                "{place} refuses the user: give a role of it read and write permission on the keys that begin \
                 with `{all}` (etcdctl role grant-permission ROLE readwrite --prefix=true '{all}') ({words})"
            )),
            Code::InvalidArgument if message.contains("user name is empty") => LinkError::refused(format!(
                "{place} asks for a user: write `etcd://user:password@host`, or set `credentials` ({words})"
            )),
            Code::InvalidArgument if message.contains("invalid user ID or password") => {
                LinkError::refused(format!(
                    "{place} refuses the user or the password: correct the URL or what `credentials` returns \
                     ({words})"
                ))
            }
            // Users or roles were changed while the command was in flight. A new connection logs in again.
            Code::InvalidArgument if message.contains("auth store is old") => {
                LinkError::later(format!("users or roles of {place} were changed just now ({words})"))
            }
            Code::Unauthenticated => LinkError::later(format!("the login to {place} has ended ({words})")),
            Code::NotFound if message.contains("lease not found") => LinkError {
                lease_is_gone: true,
                ..LinkError::later(format!("the session with {place} has ended ({words})"))
            },
            // If the quota was reached after the member had checked it, the transaction was executed nevertheless.
            Code::ResourceExhausted if message.contains("space exceeded") => LinkError {
                connection: Connection::GoesOn,
                ..LinkError::unknown(format!(
                    "{place} takes no more data: compact and defragment it, raise its --quota-backend-bytes, then \
                     `etcdctl alarm disarm` ({words})"
                ))
            },
            Code::ResourceExhausted => {
                let text = format!("{place} is overloaded ({words})");
                let is_refused = message.contains("too many requests");
                let error = if is_refused { LinkError::later(text) } else { LinkError::unknown(text) };
                LinkError { connection: Connection::GoesOn, ..error }
            }
            Code::Unimplemented | Code::InvalidArgument | Code::FailedPrecondition => LinkError::refused(
                format!("{place} does not take what distlock sends: etcd 3.4 or later is needed ({words})"),
            ),
            _ => LinkError::unknown(format!("{place} gave no answer that counts ({words})")),
        }
    }
}

/// Whether a login was refused because the cluster has no users. In that case, no login is needed.
pub(super) fn needs_no_login(error: &ClientError) -> bool {
    matches!(error, ClientError::GRpcStatus(status) if status.message().contains("authentication is not enabled"))
}

/// The message of the server, and its cause.
fn status_text(status: &Status) -> String {
    let text = match status.message() {
        "" => status.code().to_string(),
        message => message.to_owned(),
    };
    with_causes(text, status.source())
}

fn chain(error: &ClientError) -> String {
    let source = match error {
        ClientError::TransportError(inner) => inner.source(),
        _ => None,
    };
    with_causes(error.to_string(), source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::engine::Failure;

    fn said(code: Code, words: &str) -> LinkError {
        let error = ClientError::GRpcStatus(Status::new(code, words));
        LinkError::from(&error, "etcd at h:2379", "app/locks/")
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_will_be_refused_again_is_not() {
        use Connection::{GoesOn, IsReplaced};
        for (code, words, kind, connection) in [
            (Code::PermissionDenied, "etcdserver: permission denied", Failure::Refused, GoesOn),
            (Code::InvalidArgument, "etcdserver: user name is empty", Failure::Refused, GoesOn),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                Failure::Refused,
                GoesOn,
            ),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", Failure::Later, IsReplaced),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Failure::Later, IsReplaced),
            (Code::NotFound, "etcdserver: requested lease not found", Failure::Later, IsReplaced),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Failure::Unknown, GoesOn),
            (Code::ResourceExhausted, "etcdserver: too many requests", Failure::Later, GoesOn),
            (Code::ResourceExhausted, "grpc: the received message is too large", Failure::Unknown, GoesOn),
            (Code::OutOfRange, "decoded message length too large", Failure::Unknown, IsReplaced),
            (Code::Unavailable, "etcdserver: request timed out", Failure::Unknown, IsReplaced),
            (Code::Unavailable, "etcdserver: no leader", Failure::Unknown, IsReplaced),
            (Code::Unavailable, "etcdserver: leader changed", Failure::Unknown, IsReplaced),
            (Code::Cancelled, "Timeout expired", Failure::Unknown, IsReplaced),
            (Code::Unimplemented, "unknown service etcdserverpb.KV", Failure::Refused, GoesOn),
        ] {
            let error = said(code, words);
            assert_eq!((error.store.kind, error.connection), (kind, connection), "{words}");
            let text = error.store.to_string();
            assert!(text.contains(words), "the server's own words: {text}");
            assert!(text.contains("etcd at h:2379"), "{text}");
        }
    }

    #[test]
    fn a_failure_of_the_connection_says_nothing_about_the_command() {
        for code in [Code::ResourceExhausted, Code::PermissionDenied, Code::Unimplemented] {
            let mut status = Status::new(code, "h2 protocol error: too many requests");
            status.set_source(std::sync::Arc::new(std::io::Error::other("ENHANCE_YOUR_CALM")));
            let error = LinkError::from(&ClientError::GRpcStatus(status), "h", "r/");
            assert_eq!(
                (error.store.kind, error.connection),
                (Failure::Unknown, Connection::IsReplaced),
                "{code}"
            );
        }
    }

    #[test]
    fn the_reason_of_a_cancelled_watch_is_read() {
        for (reason, kind) in [
            ("rpc error: code = PermissionDenied desc = etcdserver: permission denied", Failure::Refused),
            ("etcdserver: permission denied", Failure::Refused),
            ("rpc error: code = InvalidArgument desc = etcdserver: user name is empty", Failure::Refused),
            ("rpc error: code = Unauthenticated desc = etcdserver: invalid auth token", Failure::Later),
            ("rpc error: code = Unavailable desc = etcdserver: no leader", Failure::Unknown),
            ("what the watch has missed was compacted, up to revision 7", Failure::Unknown),
        ] {
            let error = LinkError::of_cancelled_watch(reason, "etcd at h:2379", "r/");
            assert_eq!(error.store.kind, kind, "{reason}: {}", error.store);
        }
    }

    #[test]
    fn a_remedy_names_the_keys() {
        let text = said(Code::PermissionDenied, "etcdserver: permission denied").store.to_string();
        assert!(text.contains("readwrite --prefix=true 'app/locks/'"), "{text}");
    }

    #[test]
    fn the_end_of_a_lease_is_recognised() {
        assert!(said(Code::NotFound, "etcdserver: requested lease not found").lease_is_gone);
        let error = ClientError::LeaseKeepAliveError("lease not found".to_owned());
        assert!(LinkError::from(&error, "h", "r/").lease_is_gone);
        assert!(!said(Code::Unavailable, "etcdserver: no leader").lease_is_gone);
    }
}
