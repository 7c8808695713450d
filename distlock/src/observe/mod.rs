//! Reports the events of a manager to observers. Everything for the log, the metrics or the program's event stream goes
//! through [`Observer`], as an [`Event`]. Spans, which are entered and left, are in [`spans`].

#[cfg_attr(not(feature = "testing"), path = "no_counts.rs")]
pub(crate) mod counts;
mod event;
#[cfg(feature = "metrics")]
mod metrics;
mod notice;
pub(crate) mod spans;
mod stream;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "tracing")]
mod words;

#[cfg(test)]
mod balance_tests;
#[cfg(test)]
pub(crate) mod recorder;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::contained::contained;
use crate::process::Process;
pub(crate) use event::{Behind, Event, LeaderStep, Lock, ReleaseOutcome};
pub(crate) use notice::{Failures, Notice};
use stream::Readers;
pub use stream::{Events, LockEvent};

/// Receives the events of a manager.
///
/// It is called on the thread of the event, between two steps of a lock. It must not block, and must not use the
/// manager. No mutex of the library is locked during the call. A panic ends only the call.
pub(crate) trait Observer: Send + Sync {
    fn event(&self, event: &Event<'_>);

    /// Whether it wants any event at this time. Of a lock whose acquisition it did not want, nothing is reported.
    fn wants_events(&self) -> bool {
        true
    }
}

/// All observers of one manager. They are created with the manager and do not change, except for the readers of its
/// stream. Without observers an event costs one comparison: nothing is allocated, and nothing is formatted.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    all: Vec<Arc<dyn Observer>>,
    readers: Arc<Readers>,
    /// The counter of sections, for tests.
    counts: counts::Counter,
    made_in: Process,
}

impl Observers {
    /// The observers of every manager.
    pub(crate) fn standard() -> Self {
        if counts::is_unobserved() {
            return Observers::default();
        }
        let all: Vec<Arc<dyn Observer>> = vec![
            #[cfg(feature = "tracing")]
            Arc::new(tracing::Tracing),
            #[cfg(feature = "metrics")]
            Arc::new(metrics::Metrics::default()),
        ];
        Observers { all, ..Observers::default() }
    }

    #[cfg(test)]
    pub(crate) fn and(mut self, observer: Arc<dyn Observer>) -> Self {
        self.all.push(observer);
        self
    }

    /// A reader of what happens from now on.
    pub(crate) fn subscribe(&self) -> Events {
        self.readers.subscribe()
    }

    /// No observer wants events, so their data need not be computed.
    pub(crate) fn want_nothing(&self) -> bool {
        !self.counts.is_on()
            && !self.all.iter().any(|observer| observer.wants_events())
            && self.readers.is_unused()
    }

    pub(crate) fn counter(&self) -> &counts::Counter {
        &self.counts
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        // In a fork, a mutex of an observer may be locked by a thread that does not exist here.
        if self.made_in.is_another() {
            return;
        }
        for observer in &self.all {
            // The panic hook has reported it; the other observers get the event nevertheless.
            drop(contained(|| observer.event(event)));
        }
        if !self.readers.is_unused() {
            drop(contained(|| self.readers.event(event)));
        }
        self.counts.event(event);
    }
}

thread_local! {
    /// The observers of the manager whose thread this is.
    static HERE: RefCell<Observers> = RefCell::default();
}

/// This thread works for one manager, whose observers these are: see [`notice`].
pub(crate) fn observe_this_thread(observers: &Observers) {
    HERE.set(observers.clone());
}

/// Reports what the code that makes connections notices. That code does not know the manager, but it runs on the
/// manager's own threads, so the manager's observers get the event, like every other one.
pub(crate) fn notice(notice: Notice<'_>) {
    // Fails at the end of the thread; then the manager has ended.
    if let Ok(observers) = HERE.try_with(|here| here.borrow().clone()) {
        observers.tell(&Event::Notice { notice });
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observers").field(&self.all.len()).finish()
    }
}
