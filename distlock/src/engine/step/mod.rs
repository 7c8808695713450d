//! The effects of one event on one key.
//!
//! Every event begins with [`Step::advance`]: a deadline that has passed becomes a loss before anything else is
//! checked.

mod acquire;
mod acquire_all;
mod answer;
mod give_back;
mod grant;
mod hold;
mod linger;
mod loss;
mod release;
mod renew;
mod wait;

use std::sync::Arc;

use super::state::{Env, KeyState, PendingReleases, Waiter};
use super::{Command, Context, Effect, EffectList, Outcome};
use crate::engine::rules;
use crate::protocol::{Time, Token, shared_token_text};

/// One event on one key. Every `pub(crate)` method is an event, which the driver passes to a machine.
pub(crate) struct Step<'a, W> {
    pub(super) now: Time,
    pub(super) key: &'a Arc<str>,
    pub(super) state: &'a mut KeyState<W>,
    pub(super) env: &'a mut Env,
    pub(super) pending: &'a mut PendingReleases,
    pub(super) out: &'a mut EffectList<W>,
}

impl<W> Step<'_, W> {
    /// Completes a request that waits, or that was about to wait.
    fn complete(&mut self, waiter: Waiter<W>, outcome: Outcome) {
        if let Some(collection) = &waiter.want.collection {
            collection.answered();
        }
        self.out.push(Effect::Done(waiter.who, outcome));
    }

    fn own_text(&self, token: Token) -> Arc<str> {
        shared_token_text(&self.env.client, token)
    }

    fn next_token(&mut self) -> Token {
        if rules::tokens_are_new() { self.env.next_token() } else { Token(1) }
    }

    fn send(&mut self, token: Token, command: Command) {
        #[cfg(test)]
        self.record_sent(token, &command);
        self.out.push(Effect::Send(Context { key: self.key.clone(), token, sent: self.now }, command));
    }
}
