//! Giving back: `leave` for leases that end, for attempts that nobody wants any more, and for whatever may
//! have been applied late; until it was answered.

use std::time::Duration;

use super::key::Step;
use super::owed::Owed;
use super::shard::SETTLING;
use super::{CLAIM, Context, Outcome, Purpose, Verdict};
use crate::backend::{Failure, Op, OpResult, Reply, ServerTime, Token};
use crate::clock::{Time, drift};
use crate::error::LostReason;

/// What a `leave` says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) token: Token,
    /// The key is to stay taken until then.
    pub(super) keep_until: Option<Time>,
    pub(super) since: ServerTime,
    /// Until when the lease was ours for certain.
    pub(super) deadline: Time,
}

impl<W> Step<'_, W> {
    /// Gives back whatever is left of a token that nobody wants any more.
    pub(super) fn undo(&mut self, token: Token) {
        self.undo_and_keep(token, None);
    }

    /// The same, but the key is to stay taken until then.
    pub(super) fn undo_and_keep(&mut self, token: Token, keep_until: Option<Time>) {
        self.leave(&Leaving { token, keep_until, since: ServerTime(0), deadline: Time(0) });
    }

    /// The same for a token that may stand in the queue.
    pub(super) fn cancel_on_server(&mut self, token: Token) {
        // The mutant of the server knows by this that a cancellation is meant.
        let since = if mutated!(CancelWithoutTestingKey) { ServerTime(u64::MAX) } else { ServerTime(0) };
        self.leave(&Leaving { token, keep_until: None, since, deadline: Time(0) });
    }

    /// Sends a `leave`.
    pub(super) fn leave(&mut self, leaving: &Leaving) {
        let longest = self.env.longest_ttl.max(self.env.tuning.keep + CLAIM);
        let until = self.now.after(longest).after(drift(longest)).after(SETTLING);
        let Leaving { token, keep_until, since, deadline } = *leaving;
        let owed = Owed { key: self.key.clone(), token, sends: 0, at: self.now, until, keep_until };
        self.send_leave(owed, since, deadline);
    }

    pub(super) fn leave_again(&mut self, owed: Owed) {
        self.send_leave(owed, ServerTime(0), Time(0));
    }

    /// Sends it, and once more later if a command that it should follow may still overtake it.
    fn send_leave(&mut self, mut owed: Owed, since: ServerTime, deadline: Time) {
        owed.sends += 1;
        let Owed { token, sends, until, keep_until, .. } = owed;
        if let Some(at) = self.env.link.settles_at(self.now, token)
            && !mutated!(NoCompensationAfterLinkChange)
        {
            self.owed.add(Owed { at, ..owed });
        }
        let hold = keep_until.map(|until| until.since(self.now)).filter(|hold| !hold.is_zero());
        let op = Op::Leave { token, hold: hold.map(whole_millis), since };
        self.send(token, Purpose::Leave { sends, deadline, until, keep_until }, op);
    }

    /// The answer to a `leave`.
    pub(super) fn left(&mut self, owed: Owed, deadline: Time, result: OpResult) -> Verdict {
        match result {
            Ok(Reply::NotYours) if mutated!(ResentLeaveReported) => Verdict::Lost(LostReason::Taken),
            Ok(Reply::NotYours)
                if owed.sends == 1 && (self.now < deadline || mutated!(LateRefusalReported)) =>
            {
                Verdict::Lost(LostReason::Taken)
            }
            Ok(Reply::Released { gap: true }) => {
                self.env.hints.left_free(self.key, self.now, self.env.tuning.gap);
                Verdict::Fine
            }
            Ok(_) => Verdict::Fine,
            Err(error) => {
                let given_up = mutated!(PendingReleaseGivenUp) && owed.sends > 3;
                let worth_repeating = error.kind != Failure::Refused && self.now < owed.until && !given_up;
                if worth_repeating && !mutated!(NoCompensationAfterLinkChange) {
                    self.owed.again(self.now, owed, self.env.link.is_down());
                }
                Verdict::Failed(error)
            }
        }
    }

    /// The answer to an `enter` of a token that nobody wants any more.
    pub(super) fn entered_in_vain(&mut self, context: &Context, queues: bool, result: &OpResult) {
        match result {
            _ if mutated!(LateAnswerNotUndone) => return,
            Ok(Reply::Fresh { .. } | Reply::Mine { .. }) => {}
            Ok(Reply::Busy { .. }) if queues => {}
            _ => return,
        }
        self.undo(context.token);
    }

    /// No more acquisitions: waiting requests end now, holds when `lose_all` says so.
    pub(super) fn close(&mut self) {
        self.dismiss_all(&Outcome::Closed);
        self.abandon_attempt();
    }
}

fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1))
}
