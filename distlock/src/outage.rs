//! Times without a link, and what the events of a link mean in the light of them.

use std::time::Duration;

use crate::protocol::{LinkEvent, Time};

/// A time without a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    since: Time,
    before: Before,
}

/// What there was when an outage began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Link,
    /// No link has ever been made.
    Nothing,
}

/// What a link event means for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkChange {
    /// The link was lost, or the first attempt to make it has failed.
    Lost,
    /// Another attempt has failed.
    StillDown,
    /// The first link, at the first attempt; or the first attempt after a link that nobody missed.
    Up,
    /// The first link, after attempts that failed for so long.
    UpAtLast(Duration),
    /// A link again, after so long without one.
    UpAgain(Duration),
    /// Something else.
    None,
}

impl LinkChange {
    /// `outage` is the one that goes on, if one does. It begins and ends here.
    pub(crate) fn of(
        event: &LinkEvent,
        now: Time,
        outage: &mut Option<Outage>,
        before: Before,
    ) -> LinkChange {
        match event {
            LinkEvent::Down { .. } if outage.is_some() => LinkChange::StillDown,
            LinkEvent::Down { .. } => {
                *outage = Some(Outage { since: now, before });
                LinkChange::Lost
            }
            LinkEvent::Up { .. } => match outage.take() {
                None => LinkChange::Up,
                Some(Outage { since, before: Before::Nothing }) => {
                    LinkChange::UpAtLast(now.duration_since(since))
                }
                Some(Outage { since, before: Before::Link }) => {
                    LinkChange::UpAgain(now.duration_since(since))
                }
            },
            LinkEvent::Pushes(_) => LinkChange::None,
        }
    }
}
