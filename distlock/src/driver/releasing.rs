//! Releasing a lock or extending its lease, and waiting for the reply.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::in_flight::{AwaitedCommand, AwaitedKind};
use super::lease_handle::InHand;
use super::reports::EndReport;
use super::{Core, LeaseHandle};
use crate::clock;
use crate::engine::{Confirmation, Release, Want};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell};
use crate::observe::ReleaseOutcome;
use crate::process;
use crate::protocol::OpError;

/// Why a release or an extension failed.
#[derive(Clone, Debug)]
pub(crate) enum Failed {
    Lost(LostReason),
    /// No conclusive reply. A release is repeated when the server can be reached.
    Unconfirmed(OpError),
}

/// A command that its caller awaits. If the caller is dropped, the I/O thread awaits it.
struct Awaited {
    core: Arc<Core>,
    command: AwaitedCommand,
    /// Only for a release. Dropped after the command was handed to the I/O thread, if it is.
    _in_hand: Option<InHand>,
}

impl Awaited {
    async fn confirmation(mut self) -> Confirmation {
        let here = poll_fn(|cx| {
            if self.core.is_forked() {
                return Poll::Ready(false);
            }
            self.command.poll(&self.core, cx).map(|()| true)
        });
        if !here.await {
            return Confirmation::Failed(process::forked());
        }
        self.command.confirmation.take().unwrap_or(Confirmation::None)
    }

    async fn released(self) -> Result<(), Failed> {
        match self.confirmation().await {
            Confirmation::None | Confirmation::Fine => Ok(()),
            Confirmation::Lost(reason) => Err(Failed::Lost(reason)),
            Confirmation::Failed(error) => Err(Failed::Unconfirmed(error)),
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.command.hand_over(&self.core);
    }
}

/// A hold that has ended, with the server's reply or the way to it.
pub(crate) struct Released<'a> {
    word: Word,
    report: EndReport<'a>,
}

enum Word {
    /// Handed on in this process, or lost before, or not ours to release.
    Known(Result<(), Failed>),
    Awaited(Awaited),
}

/// Ends a hold. The command has been sent when this returns.
pub(crate) fn release(lease_handle: &LeaseHandle) -> Released<'_> {
    let core = lease_handle.alive.core();
    let cell = &*lease_handle.cell;
    let Some(in_hand) = lease_handle.end() else {
        let (result, report) = if core.is_forked() {
            (Err(Failed::Unconfirmed(process::forked())), EndReport::begin(core, cell))
        } else {
            (Ok(()), EndReport::over(core, cell))
        };
        return Released { word: Word::Known(result), report };
    };
    let report = EndReport::begin(core, cell);
    let (release, effects) = core.engine.release(clock::now(), &lease_handle.cell);
    let known = match release {
        Release::HandedOn => Ok(()),
        Release::WasLost(reason) => Err(Failed::Lost(reason)),
        Release::Sent => {
            let command = AwaitedCommand::new(AwaitedKind::Release(cell.token));
            let mut awaited = Awaited { core: core.clone(), command, _in_hand: Some(in_hand) };
            core.perform(effects, Some(&mut awaited.command));
            return Released { word: Word::Awaited(awaited), report };
        }
    };
    core.perform(effects, None);
    Released { word: Word::Known(known), report }
}

/// The guard that this hold belongs to exists now: the time limits in `want` count from here.
pub(crate) fn begin_hold(lease_handle: &LeaseHandle, want: &Want) {
    let core = lease_handle.alive.core();
    let effects = core.engine.begin(clock::now(), &lease_handle.cell, want);
    core.perform(effects, None);
}

impl Released<'_> {
    /// Waits for the server's reply.
    pub(crate) async fn confirmed(self) -> Result<(), Failed> {
        let Released { word, report } = self;
        let (result, fine) = match word {
            Word::Known(result) => (result, ReleaseOutcome::HandedOn),
            Word::Awaited(awaited) => (awaited.released().await, ReleaseOutcome::Confirmed),
        };
        match &result {
            Ok(()) => report.finish(fine),
            Err(Failed::Lost(reason)) => report.finish_lost(*reason),
            Err(Failed::Unconfirmed(error)) => report.finish(ReleaseOutcome::Unconfirmed(error)),
        }
        result
    }
}

/// An extension under way.
pub(crate) struct Extending<'a> {
    cell: &'a LeaseCell,
    held: bool,
    awaited: Awaited,
}

/// Asks for the lease to last at least `ttl` from now. The command has been sent when this returns.
pub(crate) fn extend(lease_handle: &LeaseHandle, ttl: Duration) -> Extending<'_> {
    let (core, cell) = (lease_handle.alive.core(), &*lease_handle.cell);
    let (held, effects) = core.engine.extend(clock::now(), cell, ttl);
    let command = AwaitedCommand::new(AwaitedKind::Renew(cell.token));
    let mut awaited = Awaited { core: core.clone(), command, _in_hand: None };
    core.perform(effects, Some(&mut awaited.command));
    Extending { cell, held, awaited }
}

impl Extending<'_> {
    /// Waits for the server's reply.
    pub(crate) async fn confirmed(self) -> Result<(), Failed> {
        let Extending { cell, held, awaited } = self;
        let lost = |otherwise| match cell.state(clock::now()) {
            CellState::Lost(reason) => Err(Failed::Lost(reason)),
            CellState::Until(_) | CellState::Released => otherwise,
        };
        if !held {
            return lost(Err(Failed::Lost(LostReason::Expired)));
        }
        match awaited.confirmation().await {
            Confirmation::None | Confirmation::Fine => lost(Ok(())),
            Confirmation::Lost(reason) => Err(Failed::Lost(reason)),
            Confirmation::Failed(error) => Err(Failed::Unconfirmed(error)),
        }
    }
}
