//! How many servers are connected, and whether they are a majority.

use super::super::Notifications;
use crate::protocol::Time;

/// Whether there is a majority.
#[derive(Debug)]
pub(super) struct Formation {
    pub(super) stage: FormationStage,
    pub(super) pushes: Notifications,
    /// No server has an attestation mark. So the servers are new, no lock can be forgotten, and all of them count
    /// immediately.
    pub(super) untouched: bool,
    /// When to probe all servers. At first, this is immediately.
    pub(super) look_at: Time,
    /// The time of the last update of eligibility.
    pub(super) fired: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormationStage {
    /// There was no majority yet. At the given time, the first majority stops waiting for the other servers.
    Forming(Option<Time>),
    Up,
    Down,
}

impl Formation {
    pub(super) fn new() -> Formation {
        Formation {
            stage: FormationStage::Forming(None),
            pushes: Notifications::Off,
            untouched: true,
            look_at: Time(0),
            fired: None,
        }
    }
}
