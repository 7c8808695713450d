//! The state of the connection, as a machine knows it.

use crate::protocol::{Notifications, StoreError, Time, Token};

/// What is known about the connection.
#[derive(Debug)]
pub(crate) struct LinkStatus {
    /// Why there is no connection: the last attempt to connect failed, or the link broke.
    pub(crate) down: Option<StoreError>,
    pub(crate) pushes: Notifications,
    /// Until this time, commands of an earlier link may still be applied for tokens below this number.
    pub(crate) earlier_commands: Option<(Time, Token)>,
}

impl Default for LinkStatus {
    fn default() -> Self {
        LinkStatus { down: None, pushes: Notifications::Off, earlier_commands: None }
    }
}

impl LinkStatus {
    /// When no command for `token` that was sent on an earlier link can still be applied; `None`: none can
    /// already.
    pub(crate) fn settles_at(&self, now: Time, token: Token) -> Option<Time> {
        let (until, next) = self.earlier_commands?;
        (now < until && token.number() < next.number()).then_some(until)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }
}
