//! `leave` commands that must still be answered: releases and compensations whose command failed, or may be
//! overtaken by an earlier one of a link that could not be killed.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Token;
use crate::clock::Time;

/// Between two attempts on a link that is up.
const RETRY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(super) struct Owed {
    pub(super) key: Arc<str>,
    pub(super) token: Token,
    /// How often it was sent already.
    pub(super) sends: u32,
    /// When to send it; `Time::MAX`: as soon as there is a link.
    pub(super) at: Time,
    /// When nothing that could be left of the token can exist any more.
    pub(super) until: Time,
    /// The key is to stay taken until then.
    pub(super) keep_until: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct OwedList {
    list: Vec<Owed>,
}

impl OwedList {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    #[cfg(test)]
    pub(super) fn tokens(&self) -> Vec<(Arc<str>, Token)> {
        self.list.iter().map(|owed| (owed.key.clone(), owed.token)).collect()
    }

    pub(super) fn add(&mut self, owed: Owed) {
        self.list.push(owed);
    }

    /// After a failure at `now`: again soon, or when there is a link.
    pub(super) fn again(&mut self, now: Time, mut owed: Owed, link_is_down: bool) {
        owed.at = if link_is_down { Time::MAX } else { now.after(RETRY) };
        self.list.push(owed);
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.list.iter().map(|owed| owed.at.min(owed.until)).min()
    }

    /// A link is up: everything that waited for one is due. What cannot exist any more is dropped.
    pub(super) fn take_due(&mut self, now: Time, link_came_up: bool) -> Vec<Owed> {
        if self.list.is_empty() {
            return Vec::new();
        }
        let mut due = Vec::new();
        self.list.retain(|owed| {
            if owed.at <= now || (link_came_up && owed.at == Time::MAX) {
                due.push(owed.clone());
                return false;
            }
            owed.until > now
        });
        due
    }
}
