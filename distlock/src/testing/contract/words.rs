//! The words for missing abilities of a store or a fixture.

use std::time::Duration;

use super::Broken;
use distlock_store::{Abilities, LeaseRule, Waiting};

/// A word after `lacks:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Notifications,
    Queue,
    Fencing,
    MinHold,
    Ttl,
    Clock,
    Link,
    Restart,
    Late,
}

macro_rules! words {
    ($($name:ident: $word:ident)+) => {
        $(#[allow(non_upper_case_globals, reason = "as it is written after `lacks:`")]
        pub const $name: Word = Word::$word;)+
    };
}

words! {
    notifications: Notifications
    queue: Queue
    fencing: Fencing
    min_hold: MinHold
    ttl: Ttl
    clock: Clock
    link: Link
    restart: Restart
    late: Late
}

impl Word {
    /// # Errors
    ///
    /// The store declares that it has this.
    pub(super) fn is_lacking(self, abilities: &Abilities) -> Result<(), Broken> {
        let is_there = match self {
            Word::Notifications => abilities.waiting.is_told(),
            Word::Queue => abilities.waiting == Waiting::Queued,
            Word::Fencing => abilities.fencing.is_some(),
            Word::MinHold => abilities.min_hold,
            Word::Ttl => matches!(abilities.lease, LeaseRule::PerLock { .. }),
            Word::Clock => is_precise(abilities.lease),
            // The fixture's, or a fault.
            Word::Link | Word::Restart | Word::Late => false,
        };
        match is_there {
            true => {
                Err(Broken::because(format!("the abilities declare what is said to be lacking: {self:?}")))
            }
            false => Ok(()),
        }
    }
}

/// It counts milliseconds.
fn is_precise(lease: LeaseRule) -> bool {
    matches!(lease, LeaseRule::PerLock { granularity } if granularity <= Duration::from_millis(1))
}
