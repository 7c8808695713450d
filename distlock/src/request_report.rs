//! What observers are told of a request: that it begins, and how it ends, however it does.

use std::time::Duration;

use crate::backend::Kind;
use crate::clock::{self, Time};
use crate::driver::Core;
use crate::error::LockError;
use crate::guard::Guard;
use crate::observe::Event;

/// A request that has begun. When it is dropped before it was finished, the request was abandoned.
pub(crate) struct RequestReport<'a> {
    core: &'a Core,
    label: &'a str,
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
        RequestReport { core, label, started: clock::now(), state: State::Pending }
    }

    pub(crate) fn finish(mut self, result: &Result<Guard, LockError>) {
        self.state = State::Reported;
        match result {
            Ok(guard) => guard.report_acquired(self.waited()),
            Err(error) => {
                let (label, waited) = (self.label, self.waited());
                self.core.observers.tell(&Event::NotAcquired { label, error, waited });
            }
        }
    }

    fn waited(&self) -> Duration {
        clock::now().duration_since(self.started)
    }
}

impl Drop for RequestReport<'_> {
    fn drop(&mut self) {
        if self.state == State::Pending {
            let (label, waited) = (self.label, self.waited());
            self.core.observers.tell(&Event::Abandoned { label, waited });
        }
    }
}
