//! Giving back: `leave` for leases that end, for attempts that nobody wants any more, and for whatever may
//! have been applied late; until it was answered.

use std::time::Duration;

use super::key::Step;
use super::owed::Owed;
use super::shard::SETTLING;
use super::{CLAIM, Context, Outcome, Purpose, Verdict};
use crate::backend::{Failure, Op, OpResult, Reply, ServerTime, Token};
use crate::clock::Time;
use crate::error::LostReason;

impl<W> Step<'_, W> {
    /// Undoes what a token that nobody wants any more may stand for. `lives_until`: until when the server may
    /// keep it, so that an outage of any length leaves nothing behind.
    pub(super) fn undo(&mut self, token: Token, lives_until: Time, unsettled: bool) {
        self.send_leave(token, None, ServerTime(0), Time(0), lives_until, unsettled);
    }

    /// Sends a `leave`, and sends it once more if a command that it should follow may still overtake it.
    pub(super) fn send_leave(
        &mut self,
        token: Token,
        hold: Option<Duration>,
        since: ServerTime,
        deadline: Time,
        lives_until: Time,
        unsettled: bool,
    ) {
        let until = lives_until.max(self.now).after(SETTLING * 2).after(CLAIM);
        if unsettled && !mutated!(NoCompensationAfterLinkChange) {
            let at = self.now.after(SETTLING);
            self.owed.add(Owed { key: self.key.clone(), token, sends: 1, at, until });
        }
        let hold = hold.map(whole_millis);
        self.send(token, Purpose::Leave { sends: 1, deadline, until }, Op::Leave { token, hold, since });
    }

    pub(super) fn leave_again(&mut self, owed: &Owed) {
        let purpose = Purpose::Leave { sends: owed.sends + 1, deadline: Time(0), until: owed.until };
        self.send(owed.token, purpose, Op::Leave { token: owed.token, hold: None, since: ServerTime(0) });
    }

    /// The answer to a `leave`.
    pub(super) fn left(
        &mut self,
        context: &Context,
        sends: u32,
        deadline: Time,
        until: Time,
        result: OpResult,
    ) -> Verdict {
        match result {
            Ok(Reply::NotYours) if mutated!(ResentLeaveReported) => Verdict::Lost(LostReason::Taken),
            Ok(Reply::NotYours) if sends == 1 && self.now < deadline => Verdict::Lost(LostReason::Taken),
            Ok(_) => Verdict::Fine,
            Err(error) => {
                let worth_repeating = error.kind != Failure::Refused && self.now < until;
                if worth_repeating && !mutated!(NoCompensationAfterLinkChange) {
                    let (key, token) = (self.key.clone(), context.token);
                    let owed = Owed { key, token, sends, at: self.now, until };
                    self.owed.again(self.now, owed, self.env.link.is_down());
                }
                Verdict::Failed(error)
            }
        }
    }

    /// The answer to an `enter` of a token that nobody wants any more.
    pub(super) fn entered_in_vain(&mut self, context: &Context, queues: bool, result: &OpResult) {
        match result {
            Ok(Reply::Fresh { .. } | Reply::Mine { .. }) => {}
            Ok(Reply::Busy { .. }) if queues => {}
            _ => return,
        }
        self.undo(context.token, Time(0), false);
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
