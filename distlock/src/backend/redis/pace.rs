//! How often servers are asked for what may change at any time: where the master is, and which node serves
//! which slot.
//!
//! A manager asks seldom, so that a thousand managers do not overload the servers while these have to elect a
//! new master: a few times a second at first, later once in a second or two. A sign that something has
//! changed brings the next question forward, within the same limits.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{Backoff, jittered};

/// The longest pause at first.
const LONGEST_PAUSE_AT_FIRST: Duration = Duration::from_millis(200);
/// How long "at first" lasts: as long as a fail-over with short timeouts takes.
const AT_FIRST: Duration = Duration::from_secs(3);
/// The longest pause while something is wrong.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After this time without a reason to ask early, the next reason counts as the first.
const FORGET_AFTER: Duration = Duration::from_secs(2);

/// The pauses between questions while something is wrong.
#[derive(Debug, Default)]
pub(super) struct Pace {
    since: Option<Instant>,
    pause: Duration,
}

impl Pace {
    /// All is well.
    pub(super) fn calm(&mut self) {
        self.since = None;
    }

    /// Whether the trouble began only a short time ago.
    pub(super) fn is_quick(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < AT_FIRST)
    }

    /// The pause before the next question. Random, so that managers do not all ask at once.
    pub(super) fn next(&mut self) -> Duration {
        self.since.get_or_insert_with(Instant::now);
        self.pause = if self.is_quick() {
            LONGEST_PAUSE_AT_FIRST
        } else {
            (self.pause * 2).clamp(LONGEST_PAUSE_AT_FIRST, LONGEST_PAUSE)
        };
        jittered(self.pause)
    }
}

/// The pauses before questions that are asked early: short for the first few, then up to a second.
#[derive(Debug, Default)]
pub(super) struct Early {
    last: Option<Instant>,
    backoff: Backoff,
}

impl Early {
    pub(super) fn next(&mut self) -> Duration {
        let quiet = self.last.is_none_or(|last| last.elapsed() >= FORGET_AFTER);
        if quiet {
            self.backoff = Backoff::default();
        }
        self.last = Some(Instant::now());
        self.backoff.next()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_are_quick_for_some_seconds_and_then_few() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let (mut quick, mut slow) = (0, 0);
        while start.elapsed() < 20 * LONGEST_PAUSE {
            let pause = pace.next();
            assert!(pause <= LONGEST_PAUSE);
            advance(pause).await;
            if start.elapsed() < AT_FIRST { quick += 1 } else { slow += 1 }
        }
        assert!((15..=30).contains(&quick), "{quick}");
        assert!((17..=40).contains(&slow), "{slow}");
        pace.calm();
        assert!(pace.next() <= LONGEST_PAUSE_AT_FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_reasons_to_ask_early_is_answered_once_in_a_second() {
        let (mut early, start) = (Early::default(), Instant::now());
        let mut asked = 0;
        while start.elapsed() < Duration::from_secs(10) {
            advance(early.next()).await;
            asked += 1;
        }
        assert!((15..=30).contains(&asked), "{asked}");
        advance(FORGET_AFTER).await;
        assert!(early.next() <= Duration::from_millis(10));
    }
}
