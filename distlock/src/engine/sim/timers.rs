//! The timers of a process: when its I/O thread checks each shard next.

use super::client::What;
use super::config::MILLI;
use super::world::{Event, World};
use crate::protocol::Time;

/// The I/O thread is checking when the next timer is due …
#[derive(Clone, Copy, Debug)]
pub(super) enum Looks {
    Once,
    /// … and was asked meanwhile to check again.
    Again,
}

impl World {
    pub(super) fn arm(&mut self, c: usize) {
        if self.clients[c].looks.is_some() {
            self.clients[c].looks = Some(Looks::Again);
            return;
        }
        self.clients[c].timer += 1;
        if self.cfg.shards > 1 && self.chance(self.cfg.preempt) {
            self.clients[c].looks = Some(Looks::Once);
            self.clients[c].engine.alarm.disarm();
            self.look_at_shard(c, 0, None);
        } else {
            let due = self.clients[c].engine.next_due();
            self.set_timer(c, due);
        }
    }

    pub(super) fn look_at_shard(&mut self, c: usize, shard: usize, due: Option<Time>) {
        let found = self.clients[c].engine.due_of(shard);
        let due = due.into_iter().chain(found).min();
        let shard = shard + 1;
        if shard < self.cfg.shards {
            let late = self.some(MILLI);
            self.post(c, late, What::Look { shard, due });
            return;
        }
        self.clients[c].engine.alarm.arm(due);
        match self.clients[c].looks.take() {
            Some(Looks::Again) => self.arm(c),
            _ => self.set_timer(c, due),
        }
    }

    fn set_timer(&mut self, c: usize, due: Option<Time>) {
        let number = self.clients[c].timer;
        if let Some(due) = due {
            let at = self.clients[c].clock.when(due);
            // A runtime's timers are late by up to a millisecond or so, now and then by more.
            let late = if self.rng.u32(0..20) == 0 { self.cfg.late * MILLI } else { MILLI };
            let late = self.rng.u64(0..late);
            let life = self.clients[c].life;
            let what = What::Timer { number };
            self.at(at.saturating_add(late), Event::Process { client: c, life, read: None, what });
        }
    }

    pub(super) fn count_spin(&mut self, c: usize) {
        let now = self.now;
        let client = &mut self.clients[c];
        if now - client.spin.0 > 20 * MILLI {
            client.spin = (now, 0);
        }
        client.spin.1 += 1;
        if client.spin.1 > 100 {
            self.fail("hot loop", format!("the timer of process {c} fires without end"));
        }
    }
}
