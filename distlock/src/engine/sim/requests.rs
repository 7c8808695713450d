//! The requests of a run: process, lock, time and duration, drawn at the beginning.

use std::time::Duration;

use super::config::{MILLI, SECOND, chance, pick};
use super::workload::{Request, State, Waits};
use super::world::{Event, World};
use crate::engine::Renewal;
use crate::protocol::{LockKind, Time};

impl World {
    pub(super) fn plan_requests(&mut self) {
        let cfg = self.cfg.clone();
        let spread = if self.rng.bool() { cfg.horizon * 9 / 10 } else { 60 * MILLI };
        for index in 0..cfg.requests {
            let request = self.draw_request();
            let first = self.requests.len();
            self.requests.push(request);
            if self.chance(cfg.several) {
                self.make_several(first);
            }
            let mut late = MILLI + self.rng.u64(0..spread);
            if index % 5 == 4 {
                late = self.rng.u64(MILLI..cfg.horizon);
            }
            self.after(late, Event::Request(first));
        }
    }

    fn draw_request(&mut self) -> Request {
        let cfg = self.cfg.clone();
        let rng = &mut self.kernel.rng;
        let ttl = Duration::from_millis(pick(rng, &cfg.ttls));
        let waits = if chance(rng, cfg.once) {
            Waits::Once
        } else if chance(rng, cfg.forever) {
            Waits::Forever
        } else {
            Waits::For(Duration::from_millis(pick(rng, &[20, 300, 3_000, 15_000])))
        };
        let renewal = if chance(rng, cfg.no_renew) { Renewal::Never } else { Renewal::Keep };
        let longest = cfg.longest_hold.max(2);
        let hold = if rng.u32(0..10) == 0 { 0 } else { rng.u64(0..longest) * MILLI + rng.u64(0..MILLI) };
        let mut millis = |p: f64, most: u64| chance(rng, p).then(|| Duration::from_millis(rng.u64(1..most)));
        let max_hold = millis(cfg.max_hold, longest);
        let min_hold = millis(cfg.min_hold, 1_000).map(|hold| hold.min(ttl / 2));
        let rng = &mut self.kernel.rng;
        let client = rng.usize(0..cfg.clients);
        let key = rng.usize(0..cfg.keys);
        let kind = self.keys[key].used_for.kind(rng);
        let mut aside = rng.clone();
        let stays = kind == LockKind::Exclusive && min_hold.is_none() && chance(&mut aside, cfg.linger);
        let linger = stays.then(|| Duration::from_millis(pick(&mut aside, &cfg.lingers)));
        Request {
            client,
            key,
            group: None,
            kind,
            waits,
            renewal,
            ttl,
            fenced: chance(rng, cfg.fenced) && kind == LockKind::Exclusive,
            max_hold,
            min_hold,
            linger,
            hands_over: kind == LockKind::Exclusive && chance(&mut aside, cfg.hands_over),
            replaces: None,
            own_lease: kind == LockKind::Exclusive && chance(&mut aside, cfg.own_lease),
            max_waiters: chance(rng, cfg.bounded).then(|| rng.u32(1..8)),
            unavailable_after: Duration::from_millis(pick(rng, &[3_000, 3_000, 700])),
            cancel_after: chance(rng, cfg.cancel)
                .then(|| rng.u64(0..longest * 3) * MILLI + rng.u64(0..MILLI)),
            hold,
            extend: chance(rng, cfg.extend).then(|| {
                (rng.u64(0..=hold), ttl.mul_f64(0.2 + 1.8 * rng.f64()).max(Duration::from_millis(10)))
            }),
            careless: chance(rng, cfg.careless),
            looks_late: chance(rng, cfg.unpolled).then(|| rng.u64(0..40) * rng.u64(0..SECOND)),
            drops: rng.u32(0..3) == 0,
            life: None,
            ticket: None,
            state: State::Planned,
            started: 0,
            asked: Time(0),
            until: Time::MAX,
            acquired: 0,
            crowded: false,
            picked_up: false,
            in_hand_since: 0,
            extended_until: Time(0),
            longest: None,
            begun: None,
            broken: None,
            was_lost: None,
            expired_since: None,
            keeps: false,
            left_with: None,
        }
    }
}
