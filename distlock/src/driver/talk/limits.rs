//! How often a client answers: others cannot keep it busy with questions.

use std::collections::VecDeque;
use std::time::Duration;

use crate::protocol::Time;
use crate::protocol::inquiry::{About, Question};

/// What may be saved up for questions that come together.
const MOST: u64 = 100 * SHARE;
/// What comes in each second: a hundred questions about keys, or twenty pages of a list.
const EACH_SECOND: u64 = 100 * SHARE;
/// A question about a key costs one.
const SHARE: u64 = 1_000;
const PAGE_COSTS: u64 = 5 * SHARE;

/// The same question comes once from every server; after this time it was sent again.
const COPIES_WITHIN: Duration = Duration::from_millis(100);
/// How many questions are remembered, to know copies of them.
const REMEMBERED: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Limits {
    /// What is left, and when that was counted.
    left: Option<(u64, Time)>,
    answered: VecDeque<(String, u64, Time)>,
}

impl Limits {
    /// Whether a question is to be answered now.
    pub(super) fn admit(&mut self, question: &Question, now: Time) -> bool {
        let is_copy = |(asker, number, at): &(String, u64, Time)| {
            *number == question.number && *asker == question.asker && now.duration_since(*at) < COPIES_WITHIN
        };
        if self.answered.iter().any(is_copy) {
            return false;
        }
        let (left, counted) = self.left.unwrap_or((MOST, now));
        let millis = u64::try_from(now.duration_since(counted).as_millis()).unwrap_or(MOST);
        let left = millis.saturating_mul(EACH_SECOND / 1_000).saturating_add(left).min(MOST);
        let cost = match question.about {
            About::Key(_) => SHARE,
            About::List { .. } => PAGE_COSTS,
        };
        let Some(rest) = left.checked_sub(cost) else {
            self.left = Some((left, now));
            return false;
        };
        self.left = Some((rest, now));
        if self.answered.len() >= REMEMBERED {
            self.answered.pop_front();
        }
        self.answered.push_back((question.asker.clone(), question.number, now));
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
        for number in 10..10 + 2 * REMEMBERED as u64 {
            limits.admit(&page(number), Time(0).after(Duration::from_secs(number)));
        }
        assert_eq!(limits.answered.len(), REMEMBERED);
    }
}
