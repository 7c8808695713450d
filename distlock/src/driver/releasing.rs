//! Releases a lock or extends its lease, and waits for the reply.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use super::in_flight::{AwaitedCommand, AwaitedKind};
use super::lease_handle::InHand;
use super::release_report::{Ending, InBackground, report_end};
use super::reports::EndReport;
use super::unawaited::Unawaited;
use super::{Core, LeaseHandle, Requester};
use crate::engine::{Confirmation, Failed, ReleaseStarted, Step, Want};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell};
use crate::observe::ReleaseOutcome;
use crate::process;
use crate::protocol::mutated;
use distlock_store::clock;

/// A command that its caller awaits. If the caller is dropped, it continues unawaited.
struct AwaitedConfirmation {
    core: Arc<Core>,
    command: AwaitedCommand,
    /// Only for a release. If the command continues unawaited, this is dropped after that.
    in_hand: Option<InHand>,
}

impl AwaitedConfirmation {
    fn poll_confirmation(&mut self, cx: &mut TaskContext<'_>) -> Poll<Confirmation> {
        if self.core.is_forked() {
            return Poll::Ready(Err(Failed::Unconfirmed(process::forked())));
        }
        self.command.poll(&self.core, cx).map(|()| self.command.answer())
    }

    async fn confirmation(mut self) -> Confirmation {
        poll_fn(|cx| self.poll_confirmation(cx)).await
    }
}

impl Drop for AwaitedConfirmation {
    fn drop(&mut self) {
        self.command.hand_over(&self.core);
    }
}

/// A hold that has ended, and the future of the server's reply. If this is dropped before the reply has arrived, the
/// release continues unawaited.
pub(crate) struct Released {
    lease_handle: Arc<LeaseHandle>,
    word: Word,
    report: EndReport,
}

enum Word {
    /// The result is known: the lock was passed on in this process, was lost before, or has another process as its
    /// holder.
    Known(Result<(), Failed>),
    Awaited(AwaitedConfirmation),
}

/// Ends a hold. The command has been sent when this returns.
pub(crate) fn release(lease_handle: &Arc<LeaseHandle>) -> Released {
    let core = lease_handle.alive.core();
    let cell = &*lease_handle.cell;
    let ended = |word, report| Released { lease_handle: lease_handle.clone(), word, report };
    let Some(in_hand) = lease_handle.end() else {
        if core.is_forked() {
            let failed = Failed::Unconfirmed(process::forked());
            return ended(Word::Known(Err(failed)), EndReport::begin(core, cell));
        }
        return ended(Word::Known(Ok(())), EndReport::over());
    };
    let report = EndReport::begin(core, cell);
    let (release, effects) = core.engine.on_key(clock::now(), &cell.key, |step| step.release(cell));
    let known = match release {
        ReleaseStarted::HandedOn => Ok(()),
        ReleaseStarted::WasLost(reason) => Err(Failed::Lost(reason)),
        ReleaseStarted::Sent => {
            let command = AwaitedCommand::new(AwaitedKind::Release(cell.token));
            let in_hand = Some(in_hand.until_released());
            let mut awaited = AwaitedConfirmation { core: core.clone(), command, in_hand };
            core.perform(effects, Some(&mut awaited.command));
            return ended(Word::Awaited(awaited), report);
        }
    };
    core.perform(effects, None);
    ended(Word::Known(known), report)
}

/// Ends a hold, and leaves its lease on the store for the process that takes it over. The lease is renewed for its
/// whole ttl, which is returned. If that fails, or if the future is dropped before, the lease is released together with
/// the handle. No task of this process may get it, because on some stores it no longer belongs to this process.
pub(crate) async fn hand_over(lease_handle: &LeaseHandle) -> Result<Duration, Failed> {
    let (core, cell) = (lease_handle.alive.core(), &*lease_handle.cell);
    let mut ttl = None;
    let renewing = renew(lease_handle, |step| {
        ttl = step.renew_last(cell);
        ttl.is_some()
    });
    let confirmed = renewing.confirmed().await;
    if !mutated!(HandedOverUnconfirmed) {
        confirmed?;
    }
    let ttl = ttl.unwrap_or_default();
    let Some(_in_hand) = lease_handle.end() else { return Err(Failed::Lost(LostReason::Released)) };
    let mut report = EndReport::begin(core, cell);
    // Tasks that still have a handle must not continue as if they were protected.
    cell.abandon();
    let (handed_over, effects) = core.engine.on_key(clock::now(), &cell.key, |step| step.hand_over(cell));
    core.perform(effects, None);
    cell.notify();
    if let ReleaseStarted::WasLost(reason) = handed_over {
        report.finish_lost(core, cell, reason);
        return Err(Failed::Lost(reason));
    }
    report.finish(core, cell, ReleaseOutcome::HandedOn);
    Ok(ttl)
}

/// Starts the time limits in `want`, because the guard of this hold exists now.
pub(crate) fn begin_hold(lease_handle: &LeaseHandle, want: &Want) {
    let (core, cell) = (lease_handle.alive.core(), &*lease_handle.cell);
    let ((), effects) = core.engine.on_key(clock::now(), &cell.key, |step| step.begin_hold(cell, want));
    core.perform(effects, None);
}

impl Released {
    /// The lock whose hold has ended.
    pub(crate) fn cell(&self) -> &LeaseCell {
        &self.lease_handle.cell
    }

    /// The result, if it is already known.
    pub(crate) fn now(&mut self) -> Option<Result<(), Failed>> {
        let (result, fine) = match &mut self.word {
            Word::Known(result) => (result.clone(), ReleaseOutcome::HandedOn),
            Word::Awaited(awaited) if !awaited.command.is_under_way() => {
                (awaited.command.answer(), ReleaseOutcome::Confirmed)
            }
            Word::Awaited(_) => return None,
        };
        Some(self.end(result, fine))
    }

    /// Waits for the server's reply. It becomes ready only once.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Failed>> {
        if let Word::Awaited(awaited) = &mut self.word {
            let confirmation = ready!(awaited.poll_confirmation(cx));
            return Poll::Ready(self.end(confirmation, ReleaseOutcome::Confirmed));
        }
        self.now().map_or(Poll::Pending, Poll::Ready)
    }

    /// The reply is reported when it arrives. Does nothing if it has arrived, or if too many are in flight.
    pub(crate) fn leave_to_background(&mut self) {
        let Word::Awaited(awaited) = &mut self.word else { return };
        if !awaited.command.is_under_way() {
            return;
        }
        let core = awaited.core.clone();
        let Some(place) = InBackground::enter(&core) else { return };
        let kind = awaited.command.kind;
        let command = std::mem::replace(&mut awaited.command, AwaitedCommand::new(kind));
        let ending = Ending {
            cell: self.lease_handle.cell.clone(),
            report: std::mem::replace(&mut self.report, EndReport::over()),
            _in_hand: awaited.in_hand.take(),
            place,
        };
        self.word = Word::Known(Ok(()));
        Unawaited::start(&core, command, Some(ending));
    }

    fn end(&mut self, result: Result<(), Failed>, fine: ReleaseOutcome<'_>) -> Result<(), Failed> {
        let (core, cell) = (self.lease_handle.alive.core(), &self.lease_handle.cell);
        report_end(&mut self.report, (core, cell), &result, fine);
        result
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        let (core, cell) = (self.lease_handle.alive.core(), &self.lease_handle.cell);
        self.report.finish(core, cell, ReleaseOutcome::Dropped);
    }
}

/// An extension in flight.
pub(crate) struct Extending<'a> {
    cell: &'a LeaseCell,
    held: bool,
    awaited: AwaitedConfirmation,
}

/// Requests that the lease lasts at least `ttl` from now. The command has been sent when this returns.
pub(crate) fn extend(lease_handle: &LeaseHandle, ttl: Duration) -> Extending<'_> {
    renew(lease_handle, |step| step.extend(&lease_handle.cell, ttl))
}

/// `begin` creates the command. It returns `false` if the lock is no longer held.
fn renew(lease_handle: &LeaseHandle, begin: impl FnOnce(&mut Step<'_, Requester>) -> bool) -> Extending<'_> {
    let (core, cell) = (lease_handle.alive.core(), &*lease_handle.cell);
    let (held, effects) = core.engine.on_key(clock::now(), &cell.key, begin);
    let command = AwaitedCommand::new(AwaitedKind::Renew(cell.token));
    let mut awaited = AwaitedConfirmation { core: core.clone(), command, in_hand: None };
    core.perform(effects, Some(&mut awaited.command));
    Extending { cell, held, awaited }
}

impl Extending<'_> {
    /// Waits for the server's reply.
    pub(crate) async fn confirmed(self) -> Result<(), Failed> {
        let Extending { cell, held, awaited } = self;
        if held {
            awaited.confirmation().await?;
        }
        match cell.state(clock::now()) {
            CellState::Lost(reason) => Err(Failed::Lost(reason)),
            CellState::Until(_) | CellState::Released if held => Ok(()),
            CellState::Until(_) => Err(Failed::Lost(LostReason::Expired)),
            CellState::Released => Err(Failed::Lost(LostReason::Released)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LockError;
    use crate::manager::LockManager;

    #[tokio::test]
    async fn a_lock_whose_section_has_ended_is_not_extended_because_it_was_released() {
        let manager = LockManager::in_memory();
        let held = manager.lock("k").run(async |held| held.clone()).await.unwrap();
        let error = held.extend(Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::Released, .. }), "{error}");
    }
}
