//! The steps on each server after a decision. Acquisitions without a majority are released. An acquisition with a
//! majority is completed on the servers that lack it. Commands for the same token are executed in the order in which
//! they are sent on the server's connection.

use std::sync::Arc;
use std::time::Duration;

use super::super::{AcquireMode, Failure, LockKind, OpResult, ReleaseReply, Token, op};
use super::coordinator::Coordinator;
use super::effect::{MemberCommand, MemberRelease, Now, ReleaseJob, RoundOp};
use super::member::Occasion;
use super::server_reply::ServerReply;
use crate::protocol::mutated;
use crate::protocol::{Time, When};

pub(super) fn leave(token: Token) -> op::Release {
    op::Release::new(token, op::Ends::Other)
}

/// Acquires the lock if it is free, and does nothing else. Unlike the reply to [`op::TryAcquire`], its reply always
/// contains the server's time.
pub(super) fn take(token: Token, ttl: Duration) -> op::Acquire {
    op::Acquire { token, kind: LockKind::Exclusive, ttl, claim: ttl, mode: AcquireMode::Try, fences: 0 }
}

impl Coordinator {
    /// One server's reply in a decided round.
    pub(super) fn follow_up(&mut self, now: Now, id: u64, node: usize) {
        let Some(round) = self.round(id) else { return };
        let (key, token, touched) = (round.key.clone(), round.token, round.touched.has(node));
        let (succeeded, abandoned) = (round.succeeded, round.left);
        let (request, reply) = (round.request, round.reply(node).clone());
        let latest = !self.tokens.asked_later(token, node, id);
        let held = self.tokens.is_held(token);
        // Another round of this token may rely on what this one has acquired.
        let counted_on = self.tokens.is_asking(token) && !mutated!(TakenFromAnotherRound);
        match (request, reply) {
            (RoundOp::Release(_), ServerReply::Failed(error))
                if error.kind != Failure::Refused && (error.kind != Failure::NotSent || touched) =>
            {
                self.schedule_release(now, node, key, token, id);
            }
            (RoundOp::Release(_), ServerReply::Released | ServerReply::Cancelled | ServerReply::NotHeld)
                if touched =>
            {
                let until = self.gone_by(now);
                self.give_back_once_more(
                    now,
                    node,
                    MemberRelease { key, token, round: id, at: When::OnLinkUp, until },
                );
            }
            // The operation that released the token has done the rest, or its release is pending.
            _ if abandoned => {}
            (RoundOp::Renew(_), ServerReply::NotHeld) => {
                self.look_now(now);
                self.repair(now, node, &key, token);
            }
            (RoundOp::Renew(_), ServerReply::Renewed) => self.is_not_missing(node, token),
            (RoundOp::Ask(_), ServerReply::Ours { .. }) if succeeded => self.is_not_missing(node, token),
            // If a later round asks this server for the lock, that round handles the rest of this one.
            (RoundOp::Ask(_), ServerReply::Busy { .. }) if succeeded && latest => {
                if self.tokens.is_queued(token, node) && self.is_there(node) {
                    self.tell(now, node, &key, MemberCommand::Release(ReleaseJob::Ignored, leave(token)));
                }
                self.repair(now, node, &key, token);
            }
            (RoundOp::Ask(_), ServerReply::Ours { .. })
                if !succeeded
                    && !held
                    && !counted_on
                    && self.tokens.is_to_give_back(token, node)
                    && !mutated!(MinorityNotReleased) =>
            {
                self.give_back(now, node, key, token, id);
            }
            (RoundOp::Ask(_), ServerReply::Failed(error)) if error.kind == Failure::Unknown && !held => {
                self.schedule_release(now, node, key, token, id);
            }
            (RoundOp::Ask(_), ServerReply::Failed(_)) if succeeded && latest => {
                self.repair_again(now, token, None);
            }
            _ => {}
        }
    }

    pub(super) fn is_there(&self, node: usize) -> bool {
        self.members.get(node).is_some_and(|member| member.up)
    }

    /// The last open round for a token has failed: releases what the earlier rounds acquired.
    pub(super) fn give_up_in_vain(&mut self, now: Now, id: u64) {
        let Some((key, token)) = self.round(id).map(|round| (round.key.clone(), round.token)) else { return };
        let Some(entry) = self.tokens.get(token).filter(|entry| entry.open == 0 && !entry.held) else {
            return;
        };
        let (ours, kept) = (entry.ours, entry.kept);
        let to_give_back = |node: &usize| ours.has(*node) && !kept.has(*node);
        for node in
            (0..self.members.len()).filter(|node| to_give_back(node) && !mutated!(MinorityNotReleased))
        {
            self.give_back(now, node, key.clone(), token, id);
        }
    }

    /// Releases the rest of a token that this round left on one server.
    fn give_back(&mut self, now: Now, node: usize, key: Arc<str>, token: Token, round: u64) {
        let until = self.gone_by(now);
        self.tokens.is_not_ours(token, node);
        if self.is_there(node) {
            self.compensate(now, node, MemberRelease { key, token, round, at: When::OnLinkUp, until });
        } else {
            self.schedule_release(now, node, key, token, round);
        }
    }

    /// The lock is lost because it is lost on a majority. Releases it on the other servers, too.
    pub(super) fn give_back_what_is_left(&mut self, now: Now, round: u64, key: &Arc<str>, token: Token) {
        if mutated!(LostNotReleasedElsewhere) {
            return;
        }
        let Some(entry) = self.tokens.remove(token) else { return };
        self.end_repair(token, &entry.missing);
        self.abandon(now, entry.rounds);
        for node in (0..self.members.len()).filter(|node| entry.touched.has(*node)) {
            self.give_back(now, node, key.clone(), token, round);
        }
    }

    fn compensate(&mut self, now: Now, node: usize, release: MemberRelease) {
        let (key, op) = (release.key.clone(), leave(release.token));
        self.tell(now, node, &key, MemberCommand::Release(ReleaseJob::Compensate(release), op));
    }

    pub(super) fn given_back(
        &mut self,
        now: Now,
        node: usize,
        release: MemberRelease,
        result: &OpResult<ReleaseReply>,
    ) {
        match result {
            Ok(_) => self.give_back_once_more(now, node, release),
            Err(error) if error.kind == Failure::Refused => {}
            Err(_) => {
                if let Some(member) = self.members.get_mut(node) {
                    member.schedule_release(now.time, release);
                }
            }
        }
    }

    /// Sends the release a second time when commands of a former connection can no longer arrive at the server.
    fn give_back_once_more(&mut self, now: Now, node: usize, release: MemberRelease) {
        if let Some(member) = self.members.get_mut(node)
            && let Some(until) = member.former_commands_until.filter(|until| *until > now.time)
            && !mutated!(LateCommandsForgotten)
        {
            member.schedule_release_at(When::At(until), release);
        }
    }

    fn schedule_release(&mut self, now: Now, node: usize, key: Arc<str>, token: Token, round: u64) {
        let until = self.gone_by(now);
        if let Some(member) = self.members.get_mut(node)
            && !mutated!(NoPendingReleases)
        {
            member.schedule_release(now.time, MemberRelease { key, token, round, at: When::OnLinkUp, until });
        }
    }

    /// The time after which no command that was sent before now can have an effect.
    pub(super) fn gone_by(&self, now: Now) -> Time {
        now.time.after(self.lives(self.longest_ttl))
    }

    /// Retries the pending releases of a server that are due. A release is left out if the lock is held by now or was
    /// requested again.
    pub(super) fn retry_releases(&mut self, now: Now, node: usize, occasion: Occasion) {
        let Some(member) = self.members.get_mut(node) else { return };
        for release in member.take_due(now.time, occasion) {
            let again = self.tokens.asked_later(release.token, node, release.round);
            if again || self.tokens.is_held(release.token) || !self.is_there(node) {
                continue;
            }
            if self.tokens.is_asking(release.token) && !mutated!(TakenFromAnotherRound) {
                if let Some(member) = self.members.get_mut(node) {
                    member.schedule_release(now.time, release);
                }
            } else {
                self.compensate(now, node, release);
            }
        }
    }
}
