//! Events of the connection to a store.

use super::{EarlierCommands, Notifications, StoreError};

/// Events of the connection. Every event invalidates earlier knowledge about the link.
#[derive(Clone, Debug)]
pub(crate) enum LinkEvent {
    /// A new link is ready for commands. `earlier`: those that were sent on earlier links.
    Up { earlier: EarlierCommands, pushes: Notifications },
    /// There is no link. Also reported after each failed attempt to connect.
    Down { cause: StoreError },
    /// The push connection was lost, or established again. (Pushes may have been missed in between.)
    Notifications(Notifications),
}
