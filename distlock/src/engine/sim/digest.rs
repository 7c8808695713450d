//! One number for all that happened in a run: two versions of the engine that do the same have the same number.
//! It depends on no name.

use super::world::World;
use crate::engine::{Effect, Outcome};

/// FNV-1a, over whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn add(&mut self, number: u64) {
        for byte in number.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Digest {
    pub(super) fn merge(&mut self, other: Digest) {
        self.add(other.0);
    }
}

impl World {
    /// An effect, when it is carried out.
    pub(super) fn digest(&mut self, client: usize, effect: &Effect<usize>) {
        let (what, of) = match effect {
            Effect::Send(context, _) => (1, context.token.0),
            Effect::SendAcquireAll(batch) => (2, batch.len() as u64),
            Effect::Done(request, Outcome::Acquired(cell)) => (3, (*request as u64) << 32 | cell.token.0),
            Effect::Done(request, _) => (4, *request as u64),
            Effect::Lost(cell, _) => (5, cell.token.0),
            Effect::Renewed(cell) => (6, cell.token.0),
        };
        for number in [self.now, client as u64, what, of] {
            self.stats.digest.add(number);
        }
    }

    /// At the end: every number drawn counts.
    pub(super) fn digest_draws(&mut self) {
        let state = self.rng.get_seed();
        self.stats.digest.add(state);
        self.stats.digest.add(self.stats.events);
    }
}
