//! What observers are told of a request: that it begins, and how it ends, however it does.

use std::time::Duration;

use crate::backend::Kind;
use crate::clock::{self, Time};
use crate::driver::Core;
use crate::error::LockError;
use crate::observe::Event;

/// A request that has begun. When it is dropped before it has ended, the request was abandoned.
pub(crate) struct RequestReport<'a> {
    core: &'a Core,
    label: &'a str,
    keys: usize,
    started: Time,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Reported,
}

impl<'a> RequestReport<'a> {
    pub(crate) fn begin(core: &'a Core, label: &'a str, kind: Kind, keys: usize) -> Self {
        core.observers.tell(&Event::Requested { label, kind, keys });
        RequestReport { core, label, keys, started: clock::now(), state: State::Pending }
    }

    /// It has ended, and the caller reports how. Returns how long it has taken.
    pub(crate) fn end(mut self) -> Duration {
        self.state = State::Reported;
        self.waited()
    }

    pub(crate) fn not_acquired(self, error: &LockError) {
        let (core, label, keys, waited) = (self.core, self.label, self.keys, self.end());
        core.observers.tell(&Event::NotAcquired { label, error, keys, waited });
    }

    fn waited(&self) -> Duration {
        clock::now().duration_since(self.started)
    }
}

impl Drop for RequestReport<'_> {
    fn drop(&mut self) {
        if self.state == State::Pending {
            let (label, keys, waited) = (self.label, self.keys, self.waited());
            self.core.observers.tell(&Event::Abandoned { label, keys, waited });
        }
    }
}
