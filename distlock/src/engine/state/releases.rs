//! The common state of the releases of one token. Threads may send them in a different order from the engine's.

use std::collections::VecDeque;

use crate::protocol::{Time, Token};

/// At most this many tokens are remembered. A token is never used twice, so one that is remembered for too long does
/// no harm.
pub(crate) const MAX_TOKENS: usize = 256;

/// How often a token was released, as far as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    Once,
    /// Several times. Any of these releases may have been executed first.
    Repeated,
}

/// The latest tokens that were released in an unusual way.
#[derive(Debug, Default)]
pub(crate) struct UnusualReleases {
    repeated: VecDeque<Token>,
    /// Their keys are to stay taken until then (`min_hold`), and the store has not confirmed that yet.
    kept: VecDeque<(Token, Time)>,
    /// The tokens that were handed over instead of released.
    handed_over: VecDeque<Token>,
}

impl UnusualReleases {
    pub(crate) fn repeat(&mut self, token: Token) {
        remember(&mut self.repeated, token);
    }

    pub(crate) fn sends(&self, token: Token) -> Sends {
        if self.repeated.contains(&token) { Sends::Repeated } else { Sends::Once }
    }

    pub(crate) fn keep(&mut self, token: Token, until: Time) {
        remember(&mut self.kept, (token, until));
    }

    pub(crate) fn hand_over(&mut self, token: Token) {
        remember(&mut self.handed_over, token);
    }

    pub(crate) fn was_handed_over(&self, token: Token) -> bool {
        self.handed_over.contains(&token)
    }

    /// The store has confirmed that the key stays taken.
    pub(crate) fn kept(&mut self, token: Token) {
        self.kept.retain(|(kept, _)| *kept != token);
    }

    pub(crate) fn kept_until(&self, token: Token) -> Option<Time> {
        self.kept.iter().filter(|(kept, _)| *kept == token).map(|(_, until)| *until).max()
    }
}

fn remember<T>(latest: &mut VecDeque<T>, one: T) {
    if latest.len() == MAX_TOKENS {
        latest.pop_front();
    }
    latest.push_back(one);
}
