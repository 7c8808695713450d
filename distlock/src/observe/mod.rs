//! Telling observers what happens in a manager. Everything that is worth a log line, a metric or an event of the
//! program's goes through [`Observer`], as an [`Event`]; spans, which are entered and left, are in [`spans`].

mod event;
#[cfg(feature = "redis")]
mod notice;
pub(crate) mod spans;
#[cfg(feature = "tracing")]
mod tracing;

#[cfg(test)]
mod balance_tests;
#[cfg(test)]
pub(crate) mod recorder;

use std::fmt;
use std::sync::Arc;

use crate::contained::contained;
pub(crate) use event::{Event, Lock, ReleaseOutcome};
#[cfg(feature = "redis")]
pub(crate) use notice::{Failures, Notice};

/// Is told of what happens in a manager.
///
/// It is called on whatever thread an event happens on, between two steps of a lock: it must not block, and must not
/// use the manager. No mutex of the library is locked meanwhile. A panic of it ends nothing but the call.
pub(crate) trait Observer: Send + Sync {
    fn event(&self, event: &Event<'_>);
}

/// All who observe one manager. It is made with the manager and does not change. Without observers an event costs one
/// comparison: nothing is allocated, and nothing is formatted.
#[derive(Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    /// Those of every manager.
    pub(crate) fn standard() -> Self {
        #[cfg(feature = "tracing")]
        return Observers(vec![Arc::new(tracing::Tracing)]);
        #[cfg(not(feature = "tracing"))]
        Observers::default()
    }

    #[cfg(test)]
    pub(crate) fn and(mut self, observer: Arc<dyn Observer>) -> Self {
        self.0.push(observer);
        self
    }

    /// Nobody wants to know: what an event would say need not be found out.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        for observer in &self.0 {
            // The panic hook has reported it; the others are told all the same.
            drop(contained(|| observer.event(event)));
        }
    }
}

/// The one event that does not come from a manager: it is noticed where connections are made, which do not know the
/// managers that use them. So it goes to the observers that every manager has, and not to those of one manager.
#[cfg(feature = "redis")]
pub(crate) fn notice(notice: Notice<'_>) {
    let event = Event::Notice { notice };
    #[cfg(feature = "tracing")]
    drop(contained(|| tracing::Tracing.event(&event)));
    #[cfg(not(feature = "tracing"))]
    let _: Event<'_> = event;
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observers").field(&self.0.len()).finish()
    }
}
