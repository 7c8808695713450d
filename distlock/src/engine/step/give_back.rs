//! Releases on the server: leases that end, attempts that are given up, and commands that may have been applied late.
//! Every release is repeated until the server has replied.

use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Attempt, Grant, LONGEST_RETRY_PAUSE, PendingRelease};
use crate::engine::{Command, Confirmation, Failed, LONGEST_CLAIM, Outcome, ReleasePurpose};
use crate::error::LostReason;
use crate::protocol::op::Ends;
use crate::protocol::{
    Failure, LATE_COMMANDS, LeaseEnds, LockKind, OpResult, ReleaseReply, ServerTime, Time, Token, When,
    drift, op,
};

/// The content of a release command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleaseRequest {
    pub(crate) token: Token,
    /// The key stays taken until then (`min_hold`).
    pub(crate) keep_until: Option<Time>,
    /// When the run of hand-offs began, if the next holder has to know.
    pub(crate) handoffs_began: Option<ServerTime>,
    /// Until when the lease was certainly ours; `None`: it may never have been.
    pub(crate) deadline: Option<Time>,
    /// The longest ttl that any command for the token asked for.
    pub(crate) longest: Duration,
    pub(crate) ends: Ends,
}

impl<W> Step<'_, W> {
    /// Releases everything that may be left of an attempt.
    pub(super) fn undo(&mut self, attempt: &Attempt) {
        if attempt.may_be_applied() {
            self.compensate(attempt.token, attempt.longest);
        }
    }

    /// Releases everything that may be left of a token that no request wants: a lease, or a place in the queue.
    pub(super) fn compensate(&mut self, token: Token, longest: Duration) {
        self.compensate_and_keep(token, longest, None);
    }

    /// The same, but the key stays taken until `keep_until`.
    pub(super) fn compensate_and_keep(&mut self, token: Token, longest: Duration, keep_until: Option<Time>) {
        let (deadline, ends, handoffs_began) = (None, Ends::Other, rules::mark_of_a_cancellation());
        self.leave(&ReleaseRequest { token, keep_until, handoffs_began, deadline, longest, ends });
    }

    /// Sends a release command.
    pub(super) fn leave(&mut self, request: &ReleaseRequest) {
        let ReleaseRequest { token, handoffs_began, deadline, longest, ends, .. } = *request;
        let keep_until = self.keep_until(request);
        // A queue entry may still be granted while it lives.
        let longest = longest.max(self.env.tuning.queue_entry_ttl + LONGEST_CLAIM);
        let until = match self.env.tuning.leases {
            LeaseEnds::WithTtl { granularity } => {
                let longest = longest.saturating_add(granularity);
                Some(self.now.after(longest).after(drift(longest)).after(LATE_COMMANDS))
            }
            // A lease of a session does not end with its ttl while this process lives.
            LeaseEnds::WithSession(_) => None,
        };
        let key = self.key.clone();
        let release = PendingRelease { key, token, sends: 0, at: When::At(self.now), until, keep_until };
        self.send_leave(release, handoffs_began, deadline, ends);
    }

    /// A release that undoes what may be left of a token may overtake the one that ends its lease, and must then
    /// keep the key in its place.
    fn keep_until(&mut self, request: &ReleaseRequest) -> Option<Time> {
        let ReleaseRequest { token, keep_until, deadline, .. } = *request;
        if let Some(until) = keep_until {
            self.env.releases.keep(token, until);
        }
        let earlier = match deadline {
            Some(_) => None,
            None => self.env.releases.kept_until(token).filter(|_| rules::min_hold_survives_overtaking()),
        };
        keep_until.max(earlier.filter(|until| *until > self.now))
    }

    pub(in crate::engine) fn leave_again(&mut self, release: PendingRelease) {
        self.send_leave(release, None, None, Ends::Other);
    }

    /// Sends the release. If a command that it must follow may still overtake it, sends it once more later.
    fn send_leave(
        &mut self,
        mut release: PendingRelease,
        handoffs_began: Option<ServerTime>,
        deadline: Option<Time>,
        ends: Ends,
    ) {
        release.sends = release.sends.saturating_add(1);
        if deadline.is_none() && rules::repeated_releases_are_remembered() {
            self.env.releases.repeat(release.token);
        }
        let PendingRelease { token, sends, until, keep_until, .. } = release;
        if let Some(at) = self.env.link.settles_at(self.now, token)
            && rules::releases_are_repeated()
        {
            self.pending.add(PendingRelease { at: When::At(at), ..release });
        }
        let keep_taken_for = keep_until
            .map(|until| until.duration_since(self.now))
            .filter(|keep_taken_for| !keep_taken_for.is_zero());
        let keep_taken_for = keep_taken_for.map(whole_millis);
        let op = op::Release { keep_taken_for, handoffs_began, ..op::Release::new(token, ends) };
        self.send(token, Command::Release(ReleasePurpose { sends, deadline, until, keep_until }, op));
    }

    /// The reply to a release command.
    pub(super) fn on_release_reply(
        &mut self,
        release: PendingRelease,
        deadline: Option<Time>,
        result: OpResult<ReleaseReply>,
    ) -> Confirmation {
        if release.keep_until.is_some() && result.is_ok() {
            self.env.releases.kept(release.token);
        }
        match result {
            Ok(ReleaseReply::NotHeld)
                if rules::refused_release_is_a_loss(
                    self.env.releases.sends(release.token),
                    deadline,
                    self.now,
                ) =>
            {
                Err(Failed::Lost(LostReason::Taken))
            }
            Ok(ReleaseReply::Released { gap: true }) => {
                self.env.hints.left_free(self.key, self.now, self.env.tuning.poll_gap);
                Ok(())
            }
            Ok(ReleaseReply::Released { gap: false } | ReleaseReply::Cancelled | ReleaseReply::NotHeld) => {
                Ok(())
            }
            Err(error) => {
                let given_up = rules::is_given_up(error.kind, release.sends);
                let may_be_left = release.until.is_none_or(|until| self.now < until);
                if may_be_left && !given_up && rules::releases_are_repeated() {
                    // An operator may remove the reason of the refusal, but not at once.
                    let is_refused = error.kind == Failure::Refused;
                    let pause = if is_refused { LONGEST_RETRY_PAUSE } else { release.pause() };
                    let pause = pause - self.env.jitter(pause / 2);
                    let at = if self.env.link.is_down() {
                        When::OnLinkUp
                    } else {
                        When::At(self.now.after(pause))
                    };
                    self.pending.add(PendingRelease { at, ..release });
                }
                Err(Failed::Unconfirmed(error))
            }
        }
    }

    /// Releases a grant that no task of this process holds.
    pub(super) fn give_back(&mut self, grant: &Grant, keep_until: Option<Time>) {
        let handoffs_began = grant.handoffs_began.filter(|_| grant.kind == LockKind::Exclusive);
        let ends = match grant.kind {
            LockKind::Exclusive => Ends::ExclusiveLease,
            LockKind::Shared | LockKind::Limited { .. } => Ends::Other,
        };
        let Grant { token, deadline, longest, .. } = *grant;
        let deadline = Some(deadline);
        self.leave(&ReleaseRequest { token, keep_until, handoffs_began, deadline, longest, ends });
    }

    /// Refuses every acquisition from now on: waiting requests end now. Holds end only with `lose_all`.
    pub(in crate::engine) fn refuse_all(&mut self, outcome: &Outcome) {
        self.dismiss_all(outcome);
        self.abandon_attempt();
        self.end_lingering();
    }
}

/// Rounded up: the key is kept at least as long as requested.
fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1))
}
