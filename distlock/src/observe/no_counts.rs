//! Replaces counts.rs without the feature `testing`: nothing is counted.

use super::{Event, Lock};

#[derive(Clone, Default)]
pub(crate) struct Counter;

impl Counter {
    pub(crate) fn is_on(&self) -> bool {
        false
    }

    pub(crate) fn hold_ends(&self, _: &Lock<'_>) {}

    pub(super) fn event(&self, _: &Event<'_>) {}
}

pub(super) fn is_unobserved() -> bool {
    false
}
