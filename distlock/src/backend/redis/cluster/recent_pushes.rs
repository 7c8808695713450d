//! Pushes that were delivered recently. Each push arrives once from every node, so later ones are recognised as copies.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Push, ServerTime, Token};

/// How many pushes are remembered.
const MAX_REMEMBERED_PUSHES: usize = 1024;
/// All copies of a gap's push arrive within this time.
const GAP_COPY_WINDOW: Duration = Duration::from_millis(300);

/// Pushes delivered recently.
#[derive(Debug, Default)]
pub(super) struct RecentPushes(VecDeque<(Token, PushKind, Instant)>);

/// The content of a push for its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PushKind {
    Granted(ServerTime),
    Gap,
    Wanted,
}

impl RecentPushes {
    /// False if this is a copy of a push that has arrived already.
    pub(super) fn is_new(&mut self, push: &Push) -> bool {
        let now = Instant::now();
        let (token, said) = match push {
            Push::Grant { token, server_time, .. } => (*token, PushKind::Granted(*server_time)),
            Push::Gap { token, .. } => (*token, PushKind::Gap),
            Push::Wanted { token, .. } => (*token, PushKind::Wanted),
        };
        // Pushes of gaps for the same waiter differ only in their time of arrival. Of several pushes that report a
        // waiting process, one is enough.
        let known = self.0.iter().rev().any(|(other, before, seen)| {
            (*other, *before) == (token, said)
                && (said != PushKind::Gap || now.duration_since(*seen) < GAP_COPY_WINDOW)
        });
        if known {
            return false;
        }
        if self.0.len() >= MAX_REMEMBERED_PUSHES {
            self.0.pop_front();
        }
        self.0.push_back((token, said, now));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn copies_of_a_push_are_dropped_and_the_next_one_is_not() {
        let mut recent_pushes = RecentPushes::default();
        let grant = |token, server_time| Push::Grant {
            key: Arc::from("k"),
            token: Token(token),
            server_time: ServerTime(server_time),
            handoffs_began: ServerTime(0),
            fence: None,
        };
        let gap = Push::Gap { key: Arc::from("k"), token: Token(1) };
        assert!(recent_pushes.is_new(&grant(1, 5)));
        assert!(!recent_pushes.is_new(&grant(1, 5)));
        assert!(recent_pushes.is_new(&grant(1, 6)));
        assert!(recent_pushes.is_new(&grant(2, 5)));
        assert!(recent_pushes.is_new(&gap));
        assert!(!recent_pushes.is_new(&gap));
        for token in 10..10 + MAX_REMEMBERED_PUSHES as u64 {
            assert!(recent_pushes.is_new(&grant(token, 5)));
        }
        assert_eq!(recent_pushes.0.len(), MAX_REMEMBERED_PUSHES);
    }
}
