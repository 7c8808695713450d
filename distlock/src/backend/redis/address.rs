//! The address of a server.

use std::fmt;
use std::path::PathBuf;

use crate::contained::contained;
use crate::observe::{Notice, notice};
use distlock_store::kit::connection::AddressMap;

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    /// The address of another server that is reached in the same way, from the address that was announced for
    /// it. The map is foreign code. If it panics, this is the announced address.
    pub(super) fn beside(&self, host: &str, port: u16, map: Option<&AddressMap>) -> Address {
        let mapped = map.and_then(|map| {
            contained(|| map.of(host, port)).unwrap_or_else(|panicked| {
                notice(Notice::NotMapped { host, port, error: &panicked });
                None
            })
        });
        let (host, port) = mapped.unwrap_or_else(|| (host.to_owned(), port));
        match self {
            Address::Tls { .. } => Address::Tls { host, port },
            Address::Tcp { .. } | Address::Unix(_) => Address::Tcp { host, port },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = match self {
            Address::Unix(path) => return write!(f, "{}", path.display()),
            Address::Tcp { host, port } | Address::Tls { host, port } => (host, port),
        };
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}
