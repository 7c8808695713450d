//! How often a client answers: others cannot keep it busy with questions.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::protocol::Time;
use crate::protocol::inquiry::{About, Question};

/// What is answered in a second, and what may be saved up for questions that come together: a hundred questions about
/// keys, or twenty pages of a list.
const SAVED: Duration = Duration::from_secs(1);
const QUESTION_TAKES: Duration = Duration::from_millis(10);
const PAGE_TAKES: Duration = Duration::from_millis(50);

/// The same question comes once from every server; after this time it was sent again.
const COPIES_WITHIN: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Limits {
    /// Until when the questions take that were answered, one after the other. It lies no further ahead than what is
    /// saved up.
    busy_until: Option<Time>,
    /// What was answered just now: no more than is admitted in that time. Hashes, which whoever asks cannot choose, so
    /// that nothing of a question is kept.
    answered: VecDeque<(u64, Time)>,
    hasher: RandomState,
}

impl Limits {
    /// Whether a question is to be answered now.
    pub(super) fn admit(&mut self, question: &Question, now: Time) -> bool {
        while self.answered.front().is_some_and(|(_, at)| now.duration_since(*at) >= COPIES_WITHIN) {
            self.answered.pop_front();
        }
        let name = self.hasher.hash_one((&question.asker, question.number));
        if self.answered.iter().any(|(answered, _)| *answered == name) {
            return false;
        }
        let takes = match question.about {
            About::Key(_) => QUESTION_TAKES,
            About::List { .. } => PAGE_TAKES,
        };
        let until = self.busy_until.map_or(now, |until| until.max(now)).after(takes);
        if until > now.after(SAVED) {
            return false;
        }
        self.busy_until = Some(until);
        self.answered.push_back((name, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Pattern;

    fn about_a_key(number: u64) -> Question {
        Question { asker: "a".into(), number, room: 4096, about: About::Key("k".into()) }
    }

    fn page(number: u64) -> Question {
        let pattern = Pattern::read("*").unwrap();
        Question { about: About::List { pattern, after: None }, ..about_a_key(number) }
    }

    #[test]
    fn questions_that_come_too_fast_are_not_answered() {
        let mut limits = Limits::default();
        let now = Time(0);
        let admitted = (0..1_000).filter(|number| limits.admit(&about_a_key(*number), now)).count();
        assert_eq!(admitted, 100);
        let later = now.after(Duration::from_millis(200));
        let admitted = (2_000..3_000).filter(|number| limits.admit(&about_a_key(*number), later)).count();
        assert_eq!(admitted, 20);
        let much_later = now.after(Duration::from_secs(3600));
        let admitted = (4_000..5_000).filter(|number| limits.admit(&page(*number), much_later)).count();
        assert_eq!(admitted, 20);
    }

    #[test]
    fn copies_are_not_answered_and_repetitions_are() {
        let mut limits = Limits::default();
        assert!(limits.admit(&page(1), Time(0)));
        assert!(!limits.admit(&page(1), Time(0).after(Duration::from_millis(50))));
        let another = Question { asker: "b".into(), ..page(1) };
        assert!(limits.admit(&another, Time(0)));
        assert!(limits.admit(&page(1), Time(0).after(COPIES_WITHIN)));
    }

    /// However short the pauses are: what is refused costs nothing of what comes in.
    #[test]
    fn a_steady_stream_of_questions_is_answered_at_the_rate_that_is_promised() {
        for pause in [1, 10, 600, 900, 999, 1_000, 1_100, 5_000].map(Duration::from_micros) {
            let (mut limits, mut now, mut admitted, end) = (Limits::default(), Time(0), 0, 2);
            while now < Time(0).after(Duration::from_secs(end)) {
                admitted += u64::from(limits.admit(&about_a_key(now.0), now));
                now = now.after(pause);
            }
            let promised = (100 + 100 * end).min(end * 1_000_000 / pause.as_micros() as u64);
            assert!(admitted.abs_diff(promised) <= 1, "every {pause:?}: {admitted} of {promised}");
        }
    }

    /// Whoever asks, however often and for however long.
    #[test]
    fn nothing_of_a_question_is_kept_for_longer_than_its_copies_take() {
        let mut limits = Limits::default();
        let mut most = 0;
        for number in 0..100_000 {
            let question = Question { asker: "x".repeat(128), ..about_a_key(number) };
            limits.admit(&question, Time(number * 100_000));
            most = most.max(limits.answered.capacity());
        }
        assert!(most * size_of::<(u64, Time)>() <= 4096, "{most}");
        limits.admit(&about_a_key(0), Time(0).after(Duration::from_secs(3600)));
        assert_eq!(limits.answered.len(), 1);
    }
}
