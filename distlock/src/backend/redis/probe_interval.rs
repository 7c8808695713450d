//! How often servers are asked for what may change at any time: where the master is, and which node serves
//! which slot.
//!
//! A manager asks rarely, so that a thousand managers do not overload the servers while these elect a new master: a few
//! times a second at first, and later once in a second or two. A sign of a change moves the next question forward,
//! within the same limits.

use std::time::Duration;

use tokio::time::Instant;

use distlock_store::kit::backoff::{Backoff, jittered};

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
pub(super) struct WhileLooking {
    since: Option<Instant>,
    pause: Duration,
}

impl WhileLooking {
    /// All is well.
    pub(super) fn found(&mut self) {
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
pub(super) struct EarlyProbe {
    last: Option<Instant>,
    backoff: Backoff,
}

impl EarlyProbe {
    pub(super) fn next(&mut self) -> Duration {
        let quiet = self.last.is_none_or(|last| last.elapsed() >= FORGET_AFTER);
        if quiet {
            self.backoff = Backoff::default();
        }
        self.last = Some(Instant::now());
        self.backoff.next_pause()
    }
}

/// The first pause between two questions to a sentinel that publishes news, as a multiple of the usual one …
const FIRST_FACTOR: u32 = 5;
/// … and the longest. A subscription that has died silently is noticed in half of that time, by the kernel.
const LONGEST_FACTOR: u32 = 30;

/// The pauses between questions to a sentinel while the master is known and replies. They grow with the time since when
/// it has been known, because a fleet of ten thousand processes asks every sentinel.
#[derive(Debug)]
pub(super) struct WhileKnown {
    usual: Duration,
    factor: u32,
}

impl WhileKnown {
    /// `usual`: the pause if the sentinel publishes no news.
    pub(super) fn new(usual: Duration) -> WhileKnown {
        WhileKnown { usual, factor: FIRST_FACTOR }
    }

    /// There was news, or trouble.
    pub(super) fn changed(&mut self) {
        self.factor = FIRST_FACTOR;
    }

    /// The pause before the next question to a sentinel that publishes no news.
    pub(super) fn next_unsubscribed(&mut self) -> Duration {
        self.changed();
        self.usual
    }

    /// The pause before the next question to a sentinel whose events arrive. It is random, so that managers that were
    /// started together do not ask together.
    pub(super) fn next_subscribed(&mut self) -> Duration {
        let pause = self.usual * self.factor;
        self.factor = (self.factor * 2).min(LONGEST_FACTOR);
        jittered(pause)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn questions_are_quick_for_some_seconds_and_then_few() {
        let (mut interval, start) = (WhileLooking::default(), Instant::now());
        let (mut quick, mut slow) = (0, 0);
        while start.elapsed() < 20 * LONGEST_PAUSE {
            let pause = interval.next();
            assert!(pause <= LONGEST_PAUSE);
            advance(pause).await;
            if start.elapsed() < AT_FIRST { quick += 1 } else { slow += 1 }
        }
        assert!((15..=30).contains(&quick), "{quick}");
        assert!((17..=40).contains(&slow), "{slow}");
        interval.found();
        assert!(interval.next() <= LONGEST_PAUSE_AT_FIRST);
    }

    #[test]
    fn the_longer_it_is_calm_the_less_is_asked_until_there_is_news() {
        let second = Duration::from_secs(1);
        let mut known = WhileKnown::new(second);
        let hour = |known: &mut WhileKnown| {
            let (mut asked, mut time) = (0, Duration::ZERO);
            while time < Duration::from_secs(3600) {
                (asked, time) = (asked + 1, time + known.next_subscribed());
            }
            asked
        };
        assert!(known.next_subscribed() <= 5 * second, "at first it is asked about as often as before");
        // Every 15 to 30 seconds: 160 times an hour on average.
        let asked = hour(&mut known);
        assert!((120..=240).contains(&asked), "{asked}");
        known.changed();
        assert!(known.next_subscribed() <= 5 * second);
        assert!(known.next_subscribed() >= 5 * second);
        assert_eq!([known.next_unsubscribed(), known.next_unsubscribed()], [second; 2]);
        assert!(known.next_subscribed() <= 5 * second, "without news it was not known");
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_reasons_to_ask_early_is_answered_once_in_a_second() {
        let (mut early, start) = (EarlyProbe::default(), Instant::now());
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
