//! The connection, as far as a machine knows of it.

use crate::protocol::{OpError, Pushes, Time, Token};

/// What is known about the connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// Why there is none, once an attempt to connect has failed or a link was lost.
    pub(crate) down: Option<OpError>,
    pub(crate) pushes: Pushes,
    /// Commands of an earlier link may be applied until then, if they are about a token below this number.
    pub(crate) former_links_alive: Option<(Time, Token)>,
}

impl Default for Link {
    fn default() -> Self {
        Link { down: None, pushes: Pushes::Off, former_links_alive: None }
    }
}

impl Link {
    /// When nothing that was sent for `token` on an earlier link can be applied any more; `None`: that is so
    /// already.
    pub(crate) fn settles_at(&self, now: Time, token: Token) -> Option<Time> {
        let (until, next) = self.former_links_alive?;
        (now < until && token < next).then_some(until)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }
}
