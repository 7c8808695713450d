//! Warnings of long waits and holds.
//!
//! A lock never wakes the I/O thread for this. After the first request for a warning, the thread checks once a second
//! (or when the next known warning is due), so a warning may come a second late.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use super::Core;
use crate::contained::contained;
use crate::lease_cell::LeaseCell;
use crate::observe::{Event, Lock};
use crate::protocol::Time;
use distlock_store::clock;
use distlock_store::kit::sync::Locked;

/// The longest time between two looks.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two looks, for any limit.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

/// A wait or a hold that may last long.
#[derive(Clone, Debug)]
pub(crate) enum Lasting {
    Wait { label: Cow<'static, str>, key: Arc<str> },
    Hold(Arc<LeaseCell>),
}

#[derive(Debug)]
struct WarningTimer {
    what: Lasting,
    since: Time,
    /// The time from `since` to the next warning. Each warning doubles it.
    limit: Duration,
}

/// The present waits and holds.
#[derive(Debug, Default)]
pub(crate) struct LongLasting {
    entries: Locked<Entries>,
    looks: AtomicBool,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    all: HashMap<u64, WarningTimer>,
}

/// One of them. It is forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Watched {
    core: Weak<Core>,
    number: u64,
}

impl Drop for Watched {
    fn drop(&mut self) {
        // In a fork, the mutex may be locked by a thread that does not exist here.
        if let Some(core) = self.core.upgrade().filter(|core| !core.is_forked()) {
            core.long_lasting.entries().all.remove(&self.number);
        }
    }
}

impl LongLasting {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// The waits and holds that have exceeded their limits, and when to look again.
    fn due(&self, now: Time) -> (Vec<(Lasting, Duration)>, Duration) {
        let (mut due, mut pause) = (Vec::new(), MAX_CHECK_INTERVAL);
        for entry in self.entries().all.values_mut() {
            let lasted = now.duration_since(entry.since);
            if lasted >= entry.limit {
                due.push((entry.what.clone(), lasted));
                while entry.limit <= lasted {
                    entry.limit = entry.limit.saturating_mul(2);
                }
            }
            pause = pause.min(entry.limit - lasted);
        }
        (due, pause.max(SHORTEST_LOOK))
    }
}

impl Core {
    /// Warns when `what` lasts for longer than `limit`, then after twice that time, and so on. Not called in a fork.
    pub(crate) fn watch_long(self: &Arc<Self>, what: Lasting, limit: Duration) -> Watched {
        let since = clock::now();
        let limit = limit.max(SHORTEST_LOOK);
        let mut entries = self.long_lasting.entries();
        let number = entries.next;
        entries.next += 1;
        entries.all.insert(number, WarningTimer { what, since, limit });
        drop(entries);
        if !self.long_lasting.looks.swap(true, Ordering::Relaxed) {
            self.look_for_long_ones();
        }
        Watched { core: Arc::downgrade(self), number }
    }

    fn look_for_long_ones(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.io.spawn(async move {
            loop {
                let Some(pause) = core.upgrade().map(|core| core.warn_of_long_ones()) else { return };
                tokio::time::sleep(pause).await;
            }
        });
    }

    fn warn_of_long_ones(&self) -> Duration {
        let (due, pause) = self.long_lasting.due(clock::now());
        for (what, lasted) in due {
            // The mutex is not held. A panic of an observer must not end the checks.
            drop(contained(|| match &what {
                Lasting::Wait { label, key } => {
                    self.observers.tell(&Event::LongWait { label, key, waited: lasted });
                }
                Lasting::Hold(cell) if cell.reported.is_in_hand() => {
                    self.observers.tell(&Event::LongHold { lock: Lock::of(cell), held: lasted });
                }
                Lasting::Hold(_) => {}
            }));
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_come_at_the_limit_and_at_its_doubles() {
        let long = LongLasting::default();
        let what = Lasting::Wait { label: "l".into(), key: "k".into() };
        let limit = Duration::from_millis(400);
        long.entries().all.insert(1, WarningTimer { what, since: Time(0), limit });
        let due = |millis: u64| {
            let (due, pause) = long.due(Time(millis * 1_000_000));
            (due.len(), u64::try_from(pause.as_millis()).unwrap())
        };
        assert_eq!(due(100), (0, 300));
        assert_eq!(due(400), (1, 400));
        assert_eq!(due(500), (0, 300));
        assert_eq!(due(800), (1, 800));
        assert_eq!(due(10_000), (1, 1000), "one warning, however late it is");
    }
}
