//! Times without a link, and the meaning of a link's events after them.

use std::time::Duration;

use crate::protocol::{EarlierCommands, LinkEvent, Notifications, StoreError, Time};

/// A time without a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    since: Time,
    before: BeforeOutage,
}

/// The state when an outage began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeforeOutage {
    Link,
    /// No link has ever been made.
    Nothing,
}

/// The changes of the link to a store.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "an observer leaves out what it has no use for")]
pub(crate) enum LinkChange<'a> {
    /// Commands can be sent. `earlier`: see [`LinkEvent::Up`].
    Up { start: LinkStart, earlier: EarlierCommands, pushes: Notifications },
    /// There is no link.
    Down { outage: OutageIs, cause: &'a StoreError },
    /// The link is as before; grants are pushed from now on, or are not.
    Notifications(Notifications),
}

/// The state before a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkStart {
    /// No outage: the first attempt succeeded.
    AtOnce,
    /// Attempts that failed for this long. There has never been a link.
    AtLast(Duration),
    /// The time without a link.
    Again(Duration),
}

/// Whether an outage was known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutageIs {
    /// The link was lost, or the first attempt to make it has failed.
    New,
    /// Another attempt has failed.
    Known,
}

impl<'a> LinkChange<'a> {
    /// `outage` is the current outage, if there is one. It begins and ends here.
    pub(crate) fn of(
        event: &'a LinkEvent,
        now: Time,
        outage: &mut Option<Outage>,
        before: BeforeOutage,
    ) -> Self {
        match event {
            LinkEvent::Down { cause } => {
                let is = if outage.is_some() { OutageIs::Known } else { OutageIs::New };
                outage.get_or_insert(Outage { since: now, before });
                LinkChange::Down { outage: is, cause }
            }
            LinkEvent::Up { earlier, pushes } => {
                let start = match outage.take() {
                    None => LinkStart::AtOnce,
                    Some(Outage { since, before: BeforeOutage::Nothing }) => {
                        LinkStart::AtLast(now.duration_since(since))
                    }
                    Some(Outage { since, before: BeforeOutage::Link }) => {
                        LinkStart::Again(now.duration_since(since))
                    }
                };
                LinkChange::Up { start, earlier: *earlier, pushes: *pushes }
            }
            LinkEvent::Notifications(pushes) => LinkChange::Notifications(*pushes),
        }
    }
}
