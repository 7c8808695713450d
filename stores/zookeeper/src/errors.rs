//! The meaning of an error of ZooKeeper or of its connection for a command, and the remedy.

use zookeeper_client::Error;

use distlock_store::StoreError;

/// The location of ZooKeeper, for messages, and the parent of this program's nodes.
#[derive(Clone, Debug)]
pub(super) struct Location {
    pub(super) describe: String,
    pub(super) root: String,
}

impl Location {
    /// From the reply to a command for `path`.
    pub(super) fn error(&self, path: &str, error: &Error) -> StoreError {
        let Location { describe, root } = self;
        match error {
            Error::NoAuth => StoreError::refused(format!(
                "{describe} refuses access to `{path}`: write the user into the URL, \
                 `zookeeper://user:password@host{root}`, or give it the permissions `cdrwa` on `{root}` ({error})"
            )),
            Error::AuthFailed => StoreError::refused(format!(
                "{describe} refuses the login: correct the user and the password in the URL or what `credentials` \
                 returns ({error})"
            )),
            Error::QuotaExceeded => StoreError::refused(format!(
                "{describe} has a quota on `{path}` that is used up: raise it (setquota) ({error})"
            )),
            Error::Unimplemented | Error::InvalidAcl | Error::BadArguments(_) | Error::MarshallingError => {
                StoreError::refused(format!(
                    "{describe} does not take what distlock sends about `{path}`: ZooKeeper 3.5 or later is needed \
                     ({error})"
                ))
            }
            Error::NoChildrenForEphemerals => StoreError::refused(format!(
                "`{path}` lies below an ephemeral node, which cannot have children: choose another root in the URL of \
                 {describe} ({error})"
            )),
            Error::Throttled => StoreError::later(format!("{describe} is overloaded ({error})")),
            Error::NotReadOnly => {
                StoreError::later(format!("the member of {describe} has lost the others ({error})"))
            }
            Error::NoNode | Error::NodeExists | Error::NotEmpty | Error::BadVersion => {
                StoreError::later(format!("{describe}: `{path}` was changed by another client ({error})"))
            }
            other => StoreError::unknown(format!("{describe} gave no answer that counts ({other})")),
        }
    }

    /// There is no session.
    pub(super) fn not_connected(&self) -> StoreError {
        StoreError::not_sent(format!("not connected to {}", self.describe))
    }

    /// A reply that ZooKeeper never sends.
    pub(super) fn odd(&self, what: &str) -> StoreError {
        StoreError::unknown(format!("{}: {what}", self.describe))
    }

    /// No session could be begun. `words` is the message of the system, if there is one.
    pub(super) fn unreachable(&self, error: &Error, words: Option<String>) -> StoreError {
        match error {
            Error::NoHosts | Error::Timeout | Error::ConnectionLoss => {
                let words = words.unwrap_or_else(|| {
                    "it takes connections and begins no session: has the ensemble a majority?".to_owned()
                });
                StoreError::later(format!("cannot connect to {}: {words} ({error})", self.describe))
            }
            other => self.error(&self.root, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::engine::Failure;

    fn place() -> Location {
        Location { describe: "ZooKeeper at h:2181".to_owned(), root: "/app/locks".to_owned() }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_will_be_refused_again_is_not() {
        for (error, kind) in [
            (Error::NoAuth, Failure::Refused),
            (Error::AuthFailed, Failure::Refused),
            (Error::QuotaExceeded, Failure::Refused),
            (Error::Unimplemented, Failure::Refused),
            (Error::Throttled, Failure::Later),
            (Error::NotReadOnly, Failure::Later),
            (Error::ConnectionLoss, Failure::Unknown),
            (Error::SessionExpired, Failure::Unknown),
            (Error::SessionMoved, Failure::Unknown),
            (Error::Timeout, Failure::Unknown),
        ] {
            let said = place().error("/app/locks/locks/k", &error);
            assert_eq!(said.kind, kind, "{error}");
            let text = said.to_string();
            assert!(text.contains(&error.to_string()), "the server's own words: {text}");
            assert!(text.contains("ZooKeeper at h:2181"), "{text}");
        }
    }

    #[test]
    fn a_remedy_names_the_node() {
        let text = place().error("/app/locks/locks/k", &Error::NoAuth).to_string();
        assert!(text.contains("`cdrwa` on `/app/locks`") && text.contains("`/app/locks/locks/k`"), "{text}");
    }

    #[test]
    fn who_cannot_be_reached_is_named_with_the_reason() {
        let text = place().unreachable(&Error::NoHosts, Some("Connection refused".to_owned())).to_string();
        assert!(text.contains("h:2181: Connection refused"), "{text}");
        let text = place().unreachable(&Error::NoHosts, None).to_string();
        assert!(text.contains("majority"), "{text}");
        assert_eq!(place().unreachable(&Error::AuthFailed, None).kind, Failure::Refused);
    }
}
