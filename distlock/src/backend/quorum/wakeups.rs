//! News that a lock is free somewhere: whoever is told asks all servers again.

use std::time::Duration;

use super::super::{Push, Token};
use super::coordinator::{Coordinator, Effect, Job, Now};
use super::follow_up::leave;

/// Whoever asked in vain although nobody has the lock waits for a random time before it asks again: at most
/// so long, longer each time, so that in the end one of them is alone.
const LONGEST_BACK_OFF: Duration = Duration::from_millis(256);

impl Coordinator {
    /// A server says that the lock is free, or (only by force) given to us there.
    pub(super) fn heard(&mut self, now: Now, node: usize, push: Push) {
        let (Push::Gap { key, token } | Push::Grant { key, token, .. }) = push;
        let Some(entry) = self.tokens.get(token) else {
            // Too late for us: the next one must be told.
            self.wake_next(now, node, &key, token);
            if self.members.get(node).is_some_and(|member| member.up) {
                self.tell(now, node, Job::Ignored, &key, leave(token));
            }
            return;
        };
        if entry.held {
            return self.repair(now, node, &key, token);
        }
        let asking = entry.open > 0;
        entry.woken = true;
        if !asking {
            self.wake(now, token);
        }
    }

    /// Passes it on, at once or after a while.
    pub(super) fn wake(&mut self, now: Now, token: Token) {
        let Some(entry) = self.tokens.get(token) else { return };
        if entry.splits == 0 {
            let key = entry.key.clone();
            self.out.push(Effect::Push(Push::Gap { key, token }));
            return;
        }
        let most = Duration::from_millis(1 << entry.splits.min(8)).min(LONGEST_BACK_OFF);
        let most = u64::try_from(most.as_micros()).unwrap_or(0);
        let at = now.time.after(Duration::from_micros(self.rng.u64(0..=most)));
        if !self.wakeups.iter().any(|(_, woken)| *woken == token) {
            self.wakeups.push((at, token));
        }
    }

    pub(super) fn fire_wakeups(&mut self, now: Now) {
        let (due, later) = std::mem::take(&mut self.wakeups).into_iter().partition(|(at, _)| *at <= now.time);
        self.wakeups = later;
        let due: Vec<_> = due;
        for (_, token) in due {
            if let Some(entry) = self.tokens.get(token)
                && entry.open == 0
                && !entry.held
            {
                let key = entry.key.clone();
                self.out.push(Effect::Push(Push::Gap { key, token }));
            }
        }
    }
}
