//! How often servers are asked for what may change at any time: where the master is, who serves which slot.
//!
//! Whatever happens, the questions of one manager are few, so that a thousand managers do not keep those busy who
//! have to elect a new master meanwhile: some per second at first, later one in a second or two. What tells that
//! something has changed brings the next question forward, within the same bounds.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::{Backoff, jittered};

/// The longest pause at first.
const LONGEST_PAUSE_AT_FIRST: Duration = Duration::from_millis(200);
/// How long "at first" is: as long as a fail-over takes that was set up to be quick.
const AT_FIRST: Duration = Duration::from_secs(3);
/// The longest pause of all while something is wrong.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After so long without reason to ask early, the next one counts as the first.
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

    /// Whether trouble has begun only just now.
    pub(super) fn is_quick(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < AT_FIRST)
    }

    /// The pause before the next question: random, so that managers do not ask all at once.
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
