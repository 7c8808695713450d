//! The faults and their times.

use super::client::What;
use super::config::{MICRO, MILLI, SECOND, Use, pick};
use super::world::{Event, World};
use crate::simulation::Notice;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Break(usize),
    /// The link of a process breaks this many more times, about this time apart.
    Flap(usize, u32, u64),
    PushBreak(usize),
    /// A process gets a hint, and then this many more.
    Hint(usize, u32),
    Pause(usize, u64),
    /// The same, and its clock is stopped.
    StandStill(usize, u64),
    Crash(usize),
    Restart(usize),
    Shutdown(usize),
    /// An operator deletes the lock by force.
    Force(usize),
    /// The server's wall clock is set by this number of microseconds.
    Step(i64),
    ServerStops,
    ServerStarts,
    RefusalBegins,
    RefusalEnds,
}

impl World {
    pub(super) fn plan_faults(&mut self) {
        let cfg = self.cfg.clone();
        for _ in 0..cfg.breaks {
            let c = self.rng.usize(0..cfg.clients);
            self.some_time(Fault::Break(c));
        }
        for _ in 0..cfg.flaps {
            let c = self.rng.usize(0..cfg.clients);
            let period = pick(&mut self.rng, &[300 * MILLI, SECOND, 2 * SECOND]);
            let times = self.rng.u32(4..16);
            self.some_time(Fault::Flap(c, times, period));
        }
        for _ in 0..cfg.refusals {
            self.some_time(Fault::RefusalBegins);
        }
        for _ in 0..cfg.stops {
            let c = self.rng.usize(0..cfg.clients);
            let longest = self.longest_pause();
            let long = self.rng.u64(MILLI..longest);
            self.some_time(Fault::StandStill(c, long));
        }
        for _ in 0..cfg.push_breaks {
            let c = self.rng.usize(0..cfg.clients);
            self.some_time(Fault::PushBreak(c));
        }
        for _ in 0..cfg.hints {
            let c = self.rng.usize(0..cfg.clients);
            let more = self.rng.u32(1..20);
            self.some_time(Fault::Hint(c, more));
        }
        for _ in 0..cfg.pauses {
            let c = self.rng.usize(0..cfg.clients);
            let longest = self.longest_pause();
            let long = self.rng.u64(MILLI..longest);
            self.some_time(Fault::Pause(c, long));
        }
        for _ in 0..cfg.crashes {
            let c = self.rng.usize(0..cfg.clients);
            self.some_time(Fault::Crash(c));
        }
        for _ in 0..cfg.shutdowns {
            let c = self.rng.usize(0..cfg.clients);
            self.some_time(Fault::Shutdown(c));
        }
        for _ in 0..cfg.forces {
            let key = self.rng.usize(0..cfg.keys);
            self.some_time(Fault::Force(key));
        }
        for _ in 0..cfg.steps_back {
            let by = self.rng.i64(1_000_000..30_000_000);
            self.some_time(Fault::Step(-by));
        }
        for _ in 0..cfg.steps_forward {
            let by = self.rng.i64(1_000_000..10_000_000);
            self.some_time(Fault::Step(by));
        }
        for _ in 0..cfg.restarts {
            self.some_time(Fault::ServerStops);
        }
    }

    fn longest_pause(&self) -> u64 {
        let ttl = self.cfg.ttls[0] * MILLI;
        (ttl + ttl / 2).min(8 * SECOND)
    }

    fn some_time(&mut self, fault: Fault) {
        let late = self.kernel.rng.u64(10 * MILLI..self.cfg.horizon);
        self.after(late, Event::Fault(fault));
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Break(c) => {
                if self.rng.u32(0..4) == 0 {
                    let long = self.some(20 * SECOND);
                    self.clients[c].link.out_of_reach_until = self.now + long;
                }
                self.break_link(c, Notice::Comes);
            }
            Fault::Flap(c, times, period) => {
                self.break_link(c, Notice::Comes);
                if times > 0 {
                    let late = period / 2 + self.some(period);
                    self.after(late, Event::Fault(Fault::Flap(c, times - 1, period)));
                }
            }
            Fault::PushBreak(c) => self.break_push(c, Notice::Comes),
            Fault::Hint(c, more) => self.hint(c, more),
            Fault::Pause(c, long) => self.pause(c, long),
            Fault::StandStill(c, long) => self.stand_still(c, long),
            Fault::RefusalBegins if self.refusal.is_none() => self.refusal_begins(),
            Fault::RefusalBegins => {}
            Fault::RefusalEnds => self.refusal_ends(),
            Fault::Crash(c) => {
                self.crash(c);
                let late = self.some(4 * SECOND);
                self.after(late, Event::Fault(Fault::Restart(c)));
            }
            Fault::Restart(c) => self.restart(c),
            Fault::Shutdown(c) => {
                self.post(c, 0, What::Close);
                let grace = self.some(SECOND);
                self.post(c, grace, What::LoseAll);
            }
            Fault::Force(key) => self.force(key),
            Fault::Step(by) => {
                note!(self, "server: the clock is set by {} ms", by / 1000);
                self.wall.step(by);
                self.clock_was_set(by);
            }
            Fault::ServerStops => {
                if !self.server_is_up {
                    return;
                }
                note!(self, "server: stops");
                self.server_is_up = false;
                self.break_everything();
                let late = self.rng.u64(5 * MILLI..2 * SECOND);
                self.after(late, Event::Fault(Fault::ServerStarts));
            }
            Fault::ServerStarts => {
                note!(self, "server: starts");
                self.server_is_up = true;
                if self.cfg.wiped {
                    self.server.lose_data();
                    self.everything_was_lost();
                }
                if self.cfg.ahead > 0 {
                    self.wall.step(i64::try_from(self.cfg.ahead * MILLI / MICRO).unwrap_or(0));
                    self.stepped_at = self.now;
                    self.fault_at = self.now;
                    (0..self.keys.len()).for_each(|key| self.forget_kept(key));
                }
                for index in 0..self.keys.len() {
                    self.value_may_have_changed(index);
                }
            }
        }
    }

    fn pause(&mut self, c: usize, long: u64) {
        note!(self, "process {c}: not scheduled for {} ms", long / MILLI);
        let until = (self.now + long).max(self.clients[c].paused_until);
        self.clients[c].paused_until = until;
        self.clients[c].disturbed_at = until;
    }

    /// Its leases may expire on the server without its knowledge: the promises do not cover this.
    fn stand_still(&mut self, c: usize, long: u64) {
        if self.clients[c].paused_until > self.now {
            return;
        }
        self.pause(c, long);
        let until = self.now + long;
        self.clients[c].clock.stand_still(self.kernel.now, until);
        self.clients[c].stood_still = until;
        self.fault_at = self.fault_at.max(until);
        // The server's clock continues, as if it had been set forward.
        self.stepped_at = self.stepped_at.max(until);
    }

    fn force(&mut self, index: usize) {
        if !self.server_is_up {
            return;
        }
        let key = self.keys[index].name.clone();
        let server_time = self.server_time();
        let mut notes = Vec::new();
        self.value_may_have_changed(index);
        // Sometimes with a plain `DEL`, which leaves the other data of the lock.
        let plainly = self.keys[index].used_for != Use::Exclusive && self.rng.bool();
        let broken = if plainly {
            self.server.delete_key(server_time, &key)
        } else {
            self.server.force_release(server_time, &key, &mut notes)
        };
        if broken {
            note!(self, "server: {key} released by force{}", if plainly { ", plainly" } else { "" });
            self.leases_were_broken(index);
            self.keys[index].fault_at = self.now;
            if plainly {
                self.nobody_was_told(index);
            }
            self.value_may_have_changed(index);
        }
        self.publish(notes);
    }
}
