//! What is due: timers that fire, and the renewals that are sent as one batch.

use std::sync::Arc;

use super::in_flight::{self, Answered, Begun, all_unanswered, begin, pair};
use super::shards::Effects;
use super::{Core, Requester};
use crate::backend::{BatchPart, BoxFuture};
use crate::contained::{Panicked, contained};
use crate::engine::{Answer, Command, Context, Effect, RenewPurpose};
use crate::protocol::{OpResult, RenewReply};
use distlock_store::clock;

type Renewals = Vec<(Context, RenewPurpose)>;

impl Core {
    /// Fires the timers that are due. Renewals are sent as one batch. `Err`: the engine itself has panicked.
    pub(super) fn fire_timers(self: &Arc<Self>) -> Result<(), Panicked> {
        let now = clock::now();
        let fired = contained(|| self.engine.on_every_machine(|machine, out| machine.timer(now, out)));
        let effects = fired.inspect_err(|_| self.io.rearm())?;
        self.perform_batched(effects);
        Ok(())
    }

    pub(super) fn perform_batched(self: &Arc<Self>, effects: Effects<Requester>) {
        let mut renewals = Vec::new();
        let mut batch = Vec::new();
        let mut rest = Effects { rearm: effects.rearm, ..Effects::default() };
        for effect in effects.list {
            match effect {
                Effect::Send(context, Command::Renew(asked, op)) => {
                    batch.push((context.key.clone(), op));
                    renewals.push((context, asked));
                }
                other => rest.list.push(other),
            }
        }
        self.perform(rest, None);
        if batch.is_empty() {
            return;
        }
        // No task waits for the notes, and they do not affect locks.
        let mut notes = batch.iter().filter_map(|(key, renew)| self.hold_note(key, renew));
        if let Ok(Some(noted)) = contained(|| self.backend.note_holds(&mut notes)) {
            self.aside(noted);
        }
        match contained(|| self.backend.send_renew_all(batch)) {
            Ok(parts) => {
                let mut renewals: Vec<_> = renewals.into_iter().map(Some).collect();
                for BatchPart { places, results } in parts {
                    let renewals = places.iter().filter_map(|place| renewals.get_mut(*place)?.take());
                    self.begin_renewals(renewals.collect(), results);
                }
                // Those without a part were not answered.
                self.all_renewed(renewals.into_iter().flatten().collect(), Vec::new());
            }
            Err(panicked) => self.none_renewed(renewals, panicked),
        }
    }

    /// These renewals are answered together.
    fn begin_renewals(self: &Arc<Self>, renewals: Renewals, results: BoxFuture<Vec<OpResult<RenewReply>>>) {
        match contained(|| begin(results)) {
            Ok(Begun::Answered(results)) => self.all_renewed(renewals, results),
            Ok(Begun::UnderWay(answers)) => {
                let core = self.clone();
                self.on_io_thread(async move {
                    match in_flight::answer(answers).await {
                        Ok(results) => core.all_renewed(renewals, results),
                        Err(panicked) => core.none_renewed(renewals, panicked),
                    }
                });
            }
            Err(panicked) => self.none_renewed(renewals, panicked),
        }
    }

    fn none_renewed(self: &Arc<Self>, renewals: Renewals, panicked: Panicked) {
        let results = all_unanswered(renewals.len(), panicked);
        self.all_renewed(renewals, results);
    }

    fn all_renewed(self: &Arc<Self>, renewals: Renewals, results: Vec<OpResult<RenewReply>>) {
        for ((context, asked), result) in pair(renewals, results) {
            self.answered(Answered::One(context, Answer::Renew(asked, result), None), None);
        }
    }
}
