//! How many of the servers are connected and whether they form a majority.

use super::super::Notifications;
use crate::protocol::Time;

/// Whether there is a majority.
#[derive(Debug)]
pub(super) struct Formation {
    pub(super) stage: FormationStage,
    pub(super) pushes: Notifications,
    /// No server carries an attestation mark: the servers are new, no lock can be forgotten, and all may count at once.
    pub(super) untouched: bool,
    /// When to probe all servers: at once, to begin with.
    pub(super) look_at: Time,
    /// When eligibility was last updated.
    pub(super) fired: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormationStage {
    /// There was no majority yet. The time: when the first majority stops waiting for the other servers.
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
