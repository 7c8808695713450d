//! Checks that nothing is left at the end of a run.

use super::config::SECOND;
use super::driven::Driver;
use super::workload::State;
use super::world::{WATCH, World};
use crate::protocol::parse_owner;

impl World {
    pub(super) fn check_end(&mut self) -> Option<u64> {
        let now = self.now;
        let over = now > self.horizon()
            && self.requests.iter().all(|request| matches!(request.state, State::Ended))
            && !self.pollers_hold();
        if !over {
            if now > self.horizon() + 300 * SECOND {
                self.fail("every request ends", "some never do");
            }
            return Some(now + WATCH);
        }
        let start = self.clients.iter().map(|c| c.disturbed_at.max(c.paused_until)).max().unwrap_or(0);
        let start = (*self.quiet_since.get_or_insert(now)).max(start);
        let all_can_act = self.clients.iter().all(|c| !c.alive || c.link.works()) && self.serves();
        // Commands of an old link may arrive late, and releases that were refused are repeated with growing pauses.
        let soon = start + if self.cfg.former_links_dead { 2 * SECOND } else { 12 * SECOND };
        let soon = soon + if self.cfg.refusals > 0 { 4 * SECOND } else { 0 } + self.cfg.longest_linger();
        if !all_can_act || now < soon {
            return Some((now + 10 * WATCH).min(soon.max(now + WATCH)));
        }
        let end =
            soon + self.cfg.longest_ttl() + 25 * SECOND + if self.stepped_at > 0 { 100 * SECOND } else { 0 };
        let server_time = self.server_time();
        if now < end {
            // Living processes have cleaned up already.
            let alive: Vec<_> = self.clients.iter().filter(|c| c.alive).map(|c| c.name.clone()).collect();
            let left = self.server.contents(server_time).into_iter().find(|(_, text)| {
                parse_owner(text).is_some_and(|(name, _)| alive.iter().any(|c| **c == *name))
                    && !self.tickets.contains_key(text.as_str())
            });
            if let Some((key, text)) = left {
                self.fail("no residue", format!("{text} is left in {key} though its process lives"));
            }
            let pending = |c: usize| self.clients[c].pending_releases().into_iter().map(move |one| (c, one));
            let living = (0..self.clients.len()).filter(|c| self.clients[*c].alive);
            if let Some((c, (key, token))) = living.flat_map(pending).next() {
                self.fail("no residue", format!("process {c} still wants to release {} of {key}", token.0));
            }
            return Some(end);
        }
        if let Some((key, text)) = self.server.contents(server_time).first() {
            let what = format!("{text} is left in {key}");
            self.fail("no residue", what);
        }
        for c in 0..self.clients.len() {
            let rest = self.clients[c].rest();
            if let Some(leftovers) = self.clients[c].driver.as_ref().and_then(Driver::leftovers) {
                self.fail("no residue", format!("the driver of process {c} keeps {leftovers}"));
            }
            if self.clients[c].alive && rest > 0 {
                self.fail("no residue", format!("process {c} keeps {rest} records of nothing"));
            }
        }
        None
    }
}
