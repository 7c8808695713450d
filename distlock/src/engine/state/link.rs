//! The state of the connection, as a machine knows it.

use crate::protocol::{Pushes, StoreError, Time, Token};

/// What is known about the connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// Why there is no connection: the last attempt to connect failed, or the link broke.
    pub(crate) down: Option<StoreError>,
    pub(crate) pushes: Pushes,
    /// Until this time, commands of an earlier link may still be applied for tokens below this number.
    pub(crate) former_links_alive: Option<(Time, Token)>,
}

impl Default for Link {
    fn default() -> Self {
        Link { down: None, pushes: Pushes::Off, former_links_alive: None }
    }
}

impl Link {
    /// When no command for `token` that was sent on an earlier link can be applied any more; `None`: none can
    /// already.
    pub(crate) fn settles_at(&self, now: Time, token: Token) -> Option<Time> {
        let (until, next) = self.former_links_alive?;
        (now < until && token.number() < next.number()).then_some(until)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }
}
