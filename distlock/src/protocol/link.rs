//! Events of the connection to a store.

use super::StoreError;

/// Whether grants are pushed to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushes {
    /// Subscribed, on an unbroken connection.
    On,
    Off,
}

/// Events of the connection. Every event invalidates earlier knowledge about the link.
#[derive(Clone, Debug)]
pub(crate) enum LinkEvent {
    /// A new link is ready for commands. `former_links_dead`: no command that was sent on an earlier link can
    /// be applied any more (that link was killed on the server, or there was none).
    Up { former_links_dead: bool, pushes: Pushes },
    /// There is no link. Also reported after each failed attempt to connect.
    Down { cause: StoreError },
    /// The push connection was lost, or established again. (Pushes may have been missed in between.)
    Pushes(Pushes),
}
