//! Clients in other languages: `SET NX PX` in a loop, compare-and-delete at the end.

use std::time::Duration;

use super::config::{MILLI, SECOND};
use super::oracle::Who;
use super::world::{Event, World};

#[derive(Clone, Copy, Debug)]
pub(super) enum PollerStep {
    Sends,
    Arrives,
    Got,
    Releases,
    DeleteArrives,
}

#[derive(Debug)]
pub(super) struct Poller {
    key: usize,
    period: u64,
    hold: u64,
    tries: u32,
    sent: u64,
    holds: bool,
}

const TTL: Duration = Duration::from_secs(4);

impl World {
    pub(super) fn plan_pollers(&mut self) {
        for index in 0..self.cfg.pollers {
            let poller = Poller {
                key: self.kernel.rng.usize(0..self.cfg.keys),
                period: self.rng.u64(2..12) * MILLI,
                hold: self.rng.u64(0..80) * MILLI,
                tries: 0,
                sent: 0,
                holds: false,
            };
            self.pollers.push(poller);
            let late = self.some(SECOND);
            self.after(late, Event::Poller { poller: index, step: PollerStep::Sends });
        }
    }

    pub(super) fn poller(&mut self, index: usize, step: PollerStep) {
        let now = self.now;
        let Poller { key, hold, tries, sent, .. } = self.pollers[index];
        let name = self.keys[key].name.clone();
        let text = format!("py:{index}:{tries}");
        let delay = self.delay();
        let next = |world: &mut World, late: u64, step| {
            world.after(late, Event::Poller { poller: index, step });
        };
        match step {
            PollerStep::Sends => {
                if now > self.horizon() {
                    return;
                }
                self.pollers[index].tries += 1;
                self.pollers[index].sent = now;
                next(self, delay, PollerStep::Arrives);
            }
            PollerStep::Arrives => {
                let server_time = self.server_time();
                if self.server_is_up && self.server.set_plainly(server_time, &name, &text, TTL) {
                    note!(self, "server: {name} taken by {text}");
                    self.value_may_have_changed(key);
                    next(self, delay, PollerStep::Got);
                } else {
                    let period = self.pollers[index].period;
                    next(self, delay + period, PollerStep::Sends);
                }
            }
            PollerStep::Got => {
                self.stats.foreign += 1;
                self.pollers[index].holds = true;
                let until = sent + 3 * SECOND;
                self.foreign_entered(key, index, until);
                next(self, hold, PollerStep::Releases);
            }
            PollerStep::Releases => {
                self.pollers[index].holds = false;
                self.foreign_left(key, index);
                next(self, delay, PollerStep::DeleteArrives);
            }
            PollerStep::DeleteArrives => {
                let server_time = self.server_time();
                if self.server_is_up && self.server.delete_plainly(server_time, &name, &text) {
                    note!(self, "server: {name} freed by {text}");
                }
                self.value_may_have_changed(key);
                let period = self.pollers[index].period;
                next(self, delay + period, PollerStep::Sends);
            }
        }
    }

    fn foreign_left(&mut self, key: usize, poller: usize) {
        self.keys[key]
            .holders
            .retain(|holder| !matches!(holder.who, Who::Poller { index, .. } if index == poller));
        self.vacancy_may_begin(key);
        // Only the first waiter in the queue polls, and the new first waiter does not know that it is the first.
        self.nobody_was_told(key);
    }

    pub(super) fn pollers_hold(&self) -> bool {
        self.pollers.iter().any(|poller| poller.holds)
    }
}
