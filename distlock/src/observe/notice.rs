//! Observations of a Redis store that are not events of a lock or of a link.

use std::fmt::{self, Display, Formatter, Write};

use crate::protocol::Escaping;

/// Something that the operator of a server should change, or that explains a later event. `server` is its address.
/// `error` and `cause` are messages of the server or the system.
#[derive(Clone, Copy)]
pub(crate) enum Notice<'a> {
    /// The server deletes keys when its memory is full, by this policy.
    Evicts {
        server: &'a dyn Display,
        policy: &'a str,
    },
    LinkLost {
        server: &'a dyn Display,
        cause: &'a dyn Display,
    },
    /// No link could be made.
    NoLink {
        cause: &'a dyn Display,
    },
    /// A plain handshake has succeeded after the full one had not.
    PlainHandshake {
        server: &'a dyn Display,
    },
    /// Grants cannot be pushed here, so waiters poll. Warned of once.
    NoPushes {
        server: &'a dyn Display,
        channel: &'a str,
        error: &'a dyn Display,
    },
    PushLinkLost {
        server: &'a dyn Display,
        error: &'a dyn Display,
    },
    /// No connection for pushes could be made, this time.
    NoPushLink {
        server: &'a dyn Display,
        error: &'a dyn Display,
    },
    /// A message on the channel of pushes was not understood.
    OddPush,
    /// The replicas have not confirmed a grant.
    GrantNotConfirmed {
        error: &'a dyn Display,
    },
    NoSentinelNews {
        sentinel: &'a dyn Display,
        error: &'a dyn Display,
    },
    /// The nodes of a cluster could not be read.
    NoMap {
        cause: &'a dyn Display,
    },
    /// The function that maps announced addresses has panicked.
    NotMapped {
        host: &'a str,
        port: u16,
        error: &'a dyn Display,
    },
    /// The kernel may still send what a connection had not sent when it was closed.
    UnsentDataKept,
    /// The first failure to renew the credentials of a connection, and those after it.
    CredentialsNotRenewed {
        error: &'a dyn Display,
        before: Failures,
    },
    /// The files of keys and certificates could not be read again; those from before are used on.
    CertificatesNotRead {
        error: &'a dyn Display,
    },
}

/// How often the same has failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failures {
    None,
    Some,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// An operator should do something about it.
    Warning,
    Detail,
}

impl Notice<'_> {
    pub(super) fn severity(&self) -> Severity {
        match self {
            Notice::Evicts { .. }
            | Notice::NoPushes { .. }
            | Notice::CredentialsNotRenewed { before: Failures::None, .. } => Severity::Warning,
            Notice::CertificatesNotRead { .. } | Notice::NotMapped { .. } => Severity::Warning,
            Notice::LinkLost { .. }
            | Notice::NoLink { .. }
            | Notice::PlainHandshake { .. }
            | Notice::PushLinkLost { .. }
            | Notice::NoPushLink { .. }
            | Notice::OddPush
            | Notice::GrantNotConfirmed { .. }
            | Notice::NoSentinelNews { .. }
            | Notice::NoMap { .. }
            | Notice::UnsentDataKept
            | Notice::CredentialsNotRenewed { before: Failures::Some, .. } => Severity::Detail,
        }
    }
}

impl Display for Notice<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let f = &mut Escaping(f);
        match self {
            Notice::Evicts { server, policy } => write!(
                f,
                "{server}: maxmemory-policy `{policy}` may evict locks while they are held: use `noeviction`, or \
                 give locks a server of their own"
            ),
            Notice::LinkLost { server, cause } => write!(f, "{server}: link lost: {cause}"),
            Notice::NoLink { cause } | Notice::NoMap { cause } => write!(f, "{cause}"),
            Notice::PlainHandshake { server } => {
                write!(f, "{server}: closed the connection after HELLO, and is asked without it")
            }
            Notice::NoPushes { server, channel, error } => write!(
                f,
                "{server}: grants cannot be pushed ({error}): waiters will poll. Allow `+subscribe` and the channel \
                 `{channel}`; a proxy in front of the server must forward SUBSCRIBE"
            ),
            Notice::PushLinkLost { server, error } => write!(f, "{server}: push connection lost: {error}"),
            Notice::NoPushLink { server, error } => write!(f, "{server}: no push connection: {error}"),
            Notice::OddPush => f.write_str("a message on the push channel is not understood, and is ignored"),
            Notice::GrantNotConfirmed { error } => write!(f, "a grant was not confirmed: {error}"),
            Notice::NoSentinelNews { sentinel, error } => {
                write!(f, "no news from the sentinel at {sentinel}: {error}")
            }
            Notice::NotMapped { host, port, error } => {
                write!(f, "`address_map` failed for {host}:{port} ({error}): the announced address is used")
            }
            Notice::UnsentDataKept => f.write_str("could not discard the unsent data of a connection"),
            Notice::CredentialsNotRenewed { error, before: Failures::None } => write!(
                f,
                "the credentials of a connection could not be renewed ({error}): it may be closed by the server when \
                 they end"
            ),
            Notice::CredentialsNotRenewed { error, before: Failures::Some } => {
                write!(f, "credentials not renewed: {error}")
            }
            Notice::CertificatesNotRead { error } => {
                write!(f, "{error}; the certificates that were read before stay in use")
            }
        }
    }
}

impl fmt::Debug for Notice<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.severity())
    }
}
