//! The events of a request: its begin and its end, however it ends.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::LockKind;
use crate::driver::Core;
use crate::error::LockError;
use crate::observe::Event;
use distlock_store::clock;
use distlock_store::engine::Time;

/// A request that has begun. When it is dropped before it has ended, the request was abandoned.
pub(crate) struct RequestReport {
    started: Time,
    keys: usize,
    /// `None`: already reported, or there is no observer.
    pending: Option<(Arc<Core>, Cow<'static, str>)>,
}

impl RequestReport {
    pub(crate) fn begin(core: &Arc<Core>, label: Cow<'static, str>, kind: LockKind, keys: usize) -> Self {
        let pending = (!core.observers.want_nothing()).then(|| {
            core.observers.tell(&Event::Requested { label: &label, kind, keys });
            (core.clone(), label)
        });
        RequestReport { started: clock::now(), keys, pending }
    }

    /// When the request began.
    pub(crate) fn started(&self) -> Time {
        self.started
    }

    /// It has ended, and the caller reports the outcome if there is an observer. Returns how long it has taken.
    pub(crate) fn end(mut self) -> Option<Duration> {
        self.pending.take().map(|_| self.waited())
    }

    pub(crate) fn not_acquired(mut self, error: &LockError) {
        if let Some((core, label)) = self.pending.take() {
            core.observers.tell(&Event::NotAcquired {
                label: &label,
                error,
                keys: self.keys,
                waited: self.waited(),
            });
        }
    }

    fn waited(&self) -> Duration {
        clock::now().duration_since(self.started)
    }
}

impl Drop for RequestReport {
    fn drop(&mut self) {
        if let Some((core, label)) = self.pending.take() {
            core.observers.tell(&Event::Abandoned { label: &label, keys: self.keys, waited: self.waited() });
        }
    }
}
